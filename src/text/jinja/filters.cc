#include "text/jinja/filters.h"

#include "text/jinja/filter_rows.h"

namespace quaver::jinja {
namespace {

constexpr FilterRow kFilters[] = {
    {"abs", filter::absolute},
    {"attr", filter::attribute},
    {"batch", filter::batch},
    {"capitalize", filter::capitalize},
    {"center", filter::center},
    {"count", filter::length},
    {"d", filter::default_value},
    {"default", filter::default_value},
    {"dictsort", filter::dict_sort},
    {"e", filter::escape},
    {"escape", filter::escape},
    {"filesizeformat", filter::file_size},
    {"first", filter::first},
    {"float", filter::to_float},
    {"forceescape", filter::force_escape},
    {"format", filter::format},
    {"groupby", filter::group_by},
    {"indent", filter::indent},
    {"int", filter::to_int},
    {"items", filter::items},
    {"join", filter::join},
    {"last", filter::last},
    {"length", filter::length},
    {"list", filter::list},
    {"lower", filter::lower},
    {"map", filter::map},
    {"max", filter::max},
    {"min", filter::min},
    {"pprint", filter::pretty},
    {"random", filter::unsupported},
    {"reject", filter::reject},
    {"rejectattr", filter::reject_attribute},
    {"replace", filter::replace},
    {"reverse", filter::reverse},
    {"round", filter::round},
    {"safe", filter::safe},
    {"select", filter::select},
    {"selectattr", filter::select_attribute},
    {"slice", filter::slice},
    {"sort", filter::sort},
    {"string", filter::string},
    {"striptags", filter::strip_tags},
    {"sum", filter::sum},
    {"title", filter::title},
    {"tojson", filter::to_json},
    {"trim", filter::trim},
    {"truncate", filter::truncate},
    {"unique", filter::unique},
    {"upper", filter::upper},
    {"urlencode", filter::url_encode},
    {"urlize", filter::unsupported},
    {"wordcount", filter::word_count},
    {"wordwrap", filter::unsupported},
    {"xmlattr", filter::xml_attributes},
};

}  // namespace

Filter find_filter(std::string_view name) {
  for (const FilterRow& row : kFilters)
    if (row.name == name) return row.filter;
  return nullptr;
}

}  // namespace quaver::jinja
