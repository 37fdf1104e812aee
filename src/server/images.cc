// POST /v1/images/generations and /v1/images/edits: from the body to a run of the engine.
#include "server/endpoints.h"
#include "server/errors.h"
#include "server/form_fields.h"
#include "server/image_input.h"
#include "server/image_order.h"
#include "server/server.h"

namespace quaver::server {
namespace {

std::string_view plain_name(const FormPart& part) {
  std::string_view name = part.name;
  if (name.ends_with("[]")) name.remove_suffix(2);
  return name;
}

// The parts of a form by what they are.
struct EditForm {
  std::vector<FormPart> texts, sources;
  std::optional<FormPart> mask;
};

EditForm sort_parts(std::vector<FormPart> parts) {
  EditForm form;
  for (FormPart& part : parts) {
    const std::string_view name = plain_name(part);
    const bool is_source = name == "image" || name == "url", is_mask = name == "mask" || name == "mask_image";
    const bool is_picture = is_source || is_mask;
    if (part.file_name && !is_picture)
      throw refused(cat("the form has a file where none is taken: '", name, "'"), cat("body.", name));
    // What browsers send for a field that was left empty.
    if (is_picture && part.data.empty() && part.file_name.value_or("").empty()) continue;
    if (is_mask && form.mask) throw refused("the form has several masks; give one", cat("body.", name));
    if (is_source)
      form.sources.push_back(std::move(part));
    else if (is_mask)
      form.mask = std::move(part);
    else
      form.texts.push_back(std::move(part));
  }
  return form;
}

std::shared_ptr<const GrayImage> decode_any_mask(const FormPart& part, const MediaPolicy& policy) {
  const PictureFile file = picture_of_part(part, policy);
  return plain_name(part) == "mask" ? decode_transparent_mask(file) : decode_white_mask(file);
}

}  // namespace

void generate_images(Call call) {
  Fields fields(parse_body(call.request), Fields::Twice::kNever);
  std::string name = call.model->check_name(fields);
  ImageWish wish = read_image_fields(fields, ImageRoute::kGenerations);
  fields.finish();
  order_pictures(call, std::move(wish), ImageRoute::kGenerations, std::move(name));
}

void edit_image(Call call) {
  const EditForm form = sort_parts(parse_form(call.request));
  Fields fields(form_json(form.texts), Fields::Twice::kNever);
  std::string name = call.model->check_name(fields);
  ImageWish wish = read_image_fields(fields, ImageRoute::kEdits);
  if (form.sources.empty()) fields.missing("image");
  fields.finish();
  if (form.sources.size() > 1)
    throw refused(cat("this model edits one picture, got ", form.sources.size()),
                  cat("body.", plain_name(form.sources[1])));
  wish.request.source = decode_source(picture_of_part(form.sources.front(), call.options.media));
  if (form.mask) wish.request.mask = decode_any_mask(*form.mask, call.options.media);
  order_pictures(call, std::move(wish), ImageRoute::kEdits, std::move(name));
}

}  // namespace quaver::server
