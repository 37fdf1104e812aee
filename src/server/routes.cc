// The rows of the route table.
#include <array>

#include "server/endpoints.h"
#include "server/router.h"

namespace quaver::server {
namespace {

constexpr auto kIo = RunOn::kIoThread, kMedia = RunOn::kMedia;

constexpr std::array kRoutes = {
    Route{"GET", "/", web_page, "", kIo, true},
    Route{"GET", "/web/{...}", web_page, "", kIo, true},
    Route{"GET", "/health", health, "", kIo, true},
    Route{"GET", "/ping", health, "", kIo, true},
    Route{"POST", "/ping", health, "", kIo, true},
    Route{"GET", "/metrics", metrics, "", kIo, true},
    Route{"GET", "/version", version, "", kIo},
    Route{"GET", "/load", load, "", kIo},
    Route{"GET", "/v1/models", list_models, "model", kIo},
    Route{"GET", "/v1/models/{...}", show_model, "model", kIo},
    Route{"POST", "/v1/chat/completions", chat_completions, "chat"},
    Route{"POST", "/v1/chat/completions", chat_pictures, "image_generation", kMedia},
    Route{"POST", "/v1/completions", completions, "completions"},
    Route{"POST", "/tokenize", tokenize, "completions"},
    Route{"POST", "/detokenize", detokenize, "completions"},
    Route{"POST", "/v1/images/generations", generate_images, "image_generation"},
    Route{"POST", "/v1/images/edits", edit_image, "image_edit", kMedia},
    // Known to clients of this API, and not served by this build.
    Route{"POST", "/v1/chat/completions/batch", nullptr, "batched chat"},
    Route{"POST", "/v1/responses", nullptr, "responses"},
    Route{"POST", "/v1/messages", nullptr, "messages"},
    Route{"POST", "/v1/embeddings", nullptr, "embeddings"},
    Route{"POST", "/v1/videos", nullptr, "video_generation"},
    Route{"POST", "/v1/videos/sync", nullptr, "video_generation"},
    Route{"GET", "/v1/videos", nullptr, "video_generation"},
    Route{"GET", "/v1/videos/{}", nullptr, "video_generation"},
    Route{"GET", "/v1/videos/{}/content", nullptr, "video_generation"},
    Route{"DELETE", "/v1/videos/{}", nullptr, "video_generation"},
    Route{"POST", "/v1/audio/speech", nullptr, "speech"},
    Route{"POST", "/v1/audio/speech/batch", nullptr, "speech"},
    Route{"GET", "/v1/audio/voices", nullptr, "speech"},
    Route{"POST", "/v1/audio/voices", nullptr, "speech"},
    Route{"DELETE", "/v1/audio/voices/{}", nullptr, "speech"},
    Route{"POST", "/v1/audio/generate", nullptr, "audio generation"},
    Route{"POST", "/v1/audio/transcriptions", nullptr, "transcription"},
    Route{"POST", "/v1/audio/translations", nullptr, "translation"},
    Route{"POST", "/v1/omni/sleep", nullptr, "sleep mode"},
    Route{"POST", "/v1/omni/wakeup", nullptr, "sleep mode"},
    Route{"POST", "/start_profile", nullptr, "profiling"},
    Route{"POST", "/stop_profile", nullptr, "profiling"},
};

}  // namespace

std::span<const Route> all_routes() { return kRoutes; }

}  // namespace quaver::server
