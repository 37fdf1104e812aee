// The filters themselves, one function each; filters.cc gives them their names.
#pragma once

#include "text/jinja/interpreter.h"

namespace quaver::jinja::filter {

// filters_text.cc
Value capitalize(Interpreter&, Args&);
Value center(Interpreter&, Args&);
Value escape(Interpreter&, Args&);
Value force_escape(Interpreter&, Args&);
Value format(Interpreter&, Args&);
Value indent(Interpreter&, Args&);
Value join(Interpreter&, Args&);
Value lower(Interpreter&, Args&);
Value replace(Interpreter&, Args&);
Value safe(Interpreter&, Args&);
Value string(Interpreter&, Args&);
Value strip_tags(Interpreter&, Args&);
Value title(Interpreter&, Args&);
Value trim(Interpreter&, Args&);
Value truncate(Interpreter&, Args&);
Value upper(Interpreter&, Args&);
Value url_encode(Interpreter&, Args&);
Value word_count(Interpreter&, Args&);
Value xml_attributes(Interpreter&, Args&);
Value unsupported(Interpreter&, Args&);

// filters_value.cc
Value absolute(Interpreter&, Args&);
Value attribute(Interpreter&, Args&);
Value default_value(Interpreter&, Args&);
Value file_size(Interpreter&, Args&);
Value to_float(Interpreter&, Args&);
Value to_int(Interpreter&, Args&);
Value length(Interpreter&, Args&);
Value pretty(Interpreter&, Args&);
Value round(Interpreter&, Args&);
Value to_json(Interpreter&, Args&);

// filters_sequence.cc
Value batch(Interpreter&, Args&);
Value first(Interpreter&, Args&);
Value items(Interpreter&, Args&);
Value last(Interpreter&, Args&);
Value list(Interpreter&, Args&);
Value map(Interpreter&, Args&);
Value reject(Interpreter&, Args&);
Value reject_attribute(Interpreter&, Args&);
Value reverse(Interpreter&, Args&);
Value select(Interpreter&, Args&);
Value select_attribute(Interpreter&, Args&);
Value slice(Interpreter&, Args&);
Value sum(Interpreter&, Args&);

// filters_sort.cc
Value dict_sort(Interpreter&, Args&);
Value group_by(Interpreter&, Args&);
Value max(Interpreter&, Args&);
Value min(Interpreter&, Args&);
Value sort(Interpreter&, Args&);
Value unique(Interpreter&, Args&);

// Looks up "a.b.0" on an item, as filters with an `attribute` do; None looks up nothing.
class AttributePath {
 public:
  explicit AttributePath(const Value& attribute);
  Value get(Interpreter& interpreter, Value item, const Value* fallback = nullptr) const;

 private:
  std::vector<Value> parts_;
};

}  // namespace quaver::jinja::filter
