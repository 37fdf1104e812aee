#include "kernels/linear/code_form.h"

#include "numerics/element_value.h"

namespace quaver::kernels {
namespace {

CodeForm as_it_is(Element element) {
  const int bits = element_info(element).bits;
  CodeForm form = {.bits = bits <= 2 ? 2 : (bits <= 4 ? 4 : 8)};
  for (size_t code = 0; code < form.recoded.size(); ++code) form.recoded[code] = static_cast<uint8_t>(code);
  return form;
}

CodeForm integer(Element element) {
  CodeForm form = as_it_is(element);
  form.zero = 1 << (element_info(element).bits - 1);
  return form;
}

CodeForm table(Element element) {
  CodeForm form = as_it_is(element);
  for (uint8_t code = 0; code < 16; ++code) form.values[code] = element_value(element, code);
  return form;
}

// The exponents of a half are biased by 15.
CodeForm halves(Element element, int shift, float factor) {
  CodeForm form = as_it_is(element);
  form.half_shift = shift;
  form.factor = factor;
  return form;
}

// Numbers of six bits are numbers of e4m3fn, too.
CodeForm widened(Element element) {
  CodeForm form = halves(element, 7, 0x1p8f);
  for (uint8_t code = 0; code < 64; ++code)
    form.recoded[code] = float_to_e4m3fn(element_value(element, code));
  return form;
}

CodeForm make_form(const ElementInfo& info) {
  if (info.integer) return integer(info.element);
  if (info.bits == 4) return table(info.element);
  if (info.bits == 6) return widened(info.element);
  if (info.element == Element::kE5M2) return halves(info.element, 8, 1.0f);
  return halves(info.element, 7, info.element == Element::kE4M3FNUZ ? 0x1p7f : 0x1p8f);
}

}  // namespace

const CodeForm& code_form(Element element) {
  static const auto kForms = [] {
    std::array<CodeForm, kElements.size()> forms;
    for (size_t i = 0; i < forms.size(); ++i) forms[i] = make_form(kElements[i]);
    return forms;
  }();
  return kForms[static_cast<size_t>(element)];
}

}  // namespace quaver::kernels
