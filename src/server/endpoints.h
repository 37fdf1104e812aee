// The handlers of all routes, one group per file.
#pragma once

#include "server/call.h"

namespace quaver::server {

void chat_completions(Call call);  // chat.cc
void chat_pictures(Call call);     // chat_pictures.cc
void generate_images(Call call);   // images.cc
void edit_image(Call call);
void completions(Call call);  // completions.cc
void tokenize(Call call);     // tokenize.cc
void detokenize(Call call);
void list_models(Call call);  // models.cc
void show_model(Call call);
void health(Call call);  // service.cc
void version(Call call);
void load(Call call);
void metrics(Call call);   // metrics_page.cc
void web_page(Call call);  // web_page.cc

}  // namespace quaver::server
