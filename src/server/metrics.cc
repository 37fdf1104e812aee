#include "server/metrics.h"

#include <algorithm>

#include "base/cat.h"

namespace quaver::server {
namespace {

// The bounds of vLLM's histograms, so that dashboards made for it fit.
constexpr std::array kFirstToken = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
                                    1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0};
constexpr std::array kInterToken = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
                                    0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
constexpr std::array kWhole = {0.3,  0.5,  0.8,  1.0,  1.5,   2.0,   2.5,   5.0,   10.0,   15.0,  20.0,
                               30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};

// A label value as the text format wants it.
std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\\' || c == '"') out.push_back('\\');
    c == '\n' ? out.append("\\n") : out.append(1, c);
  }
  return out;
}

class Page {
 public:
  explicit Page(std::string labels) : labels_(std::move(labels)) {}
  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    out_ += cat("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
  }
  template <class Number>
  void value(Number number, std::string_view more = {}) {
    out_ += cat(name_, "{", labels_, more.empty() ? "" : ",", more, "} ", number, "\n");
  }
  template <class Number>
  void single(std::string_view name, std::string_view type, std::string_view help, Number number) {
    family(name, type, help);
    value(number);
  }
  void histogram(std::string_view name, std::string_view help, const Histogram& histogram) {
    family(name, "histogram", help);
    histogram.print(out_, name, labels_);
  }
  std::string take() { return std::move(out_); }

 private:
  std::string labels_, name_, out_;
};

// Names of vLLM for text, of vLLM-Omni for pictures: dashboards know them.
void print_requests(Page& page, const pipeline::Stats& stats, bool pictures) {
  const std::string prefix = pictures ? "vllm_omni:" : "vllm:";
  page.single(prefix + "num_requests_running", "gauge", "Requests in the engine's batch.", stats.running);
  page.single(prefix + "num_requests_waiting", "gauge", "Requests waiting for the engine.", stats.waiting);
  page.family(prefix + (pictures ? "requests_success_total" : "request_success_total"), "counter",
              "Requests that ended, by how.");
  page.value(stats.finished_stop, "finished_reason=\"stop\"");
  page.value(stats.finished_length, "finished_reason=\"length\"");
  page.value(stats.finished_abort, "finished_reason=\"abort\"");
  page.value(stats.finished_error, "finished_reason=\"error\"");
  page.single("quaver:requests_cancelled_total", "counter",
              "Requests whose client left or that were cancelled.", stats.finished_abort);
  page.single("quaver:non_finite_results_total", "counter", "Requests ended by a NaN or an infinity.",
              stats.non_finite);
}

void print_tokens(Page& page, const pipeline::Stats& stats) {
  page.single("vllm:kv_cache_usage_perc", "gauge", "Share of the KV cache in use, 1 is full.",
              stats.kv_cache_usage);
  page.single("vllm:num_preemptions_total", "counter", "Requests put back for want of cache.",
              stats.preemptions);
  page.single("vllm:prompt_tokens_total", "counter", "Prompt tokens taken in.", stats.prompt_tokens);
  page.single("vllm:generation_tokens_total", "counter", "Tokens generated.", stats.generation_tokens);
  page.single("vllm:prefix_cache_queries_total", "counter", "Prompt tokens looked up in the prefix cache.",
              stats.prompt_tokens);
  page.single("vllm:prefix_cache_hits_total", "counter", "Prompt tokens found in the prefix cache.",
              stats.cached_prompt_tokens);
}

}  // namespace

void Histogram::observe(double seconds) {
  ++counts_[static_cast<size_t>(std::lower_bound(bounds_.begin(), bounds_.end(), seconds) - bounds_.begin())];
  sum_ += seconds;
  ++total_;
}

void Histogram::print(std::string& out, std::string_view name, std::string_view labels) const {
  int64_t below = 0;
  for (size_t i = 0; i < bounds_.size(); ++i) {
    below += counts_[i];
    out += cat(name, "_bucket{", labels, ",le=\"", bounds_[i], "\"} ", below, "\n");
  }
  out += cat(name, "_bucket{", labels, ",le=\"+Inf\"} ", total_, "\n");
  out += cat(name, "_sum{", labels, "} ", sum_, "\n", name, "_count{", labels, "} ", total_, "\n");
}

Metrics::Metrics()
    : first_token_(kFirstToken),
      inter_token_(kInterToken),
      whole_(kWhole),
      preprocess_(kWhole),
      exec_(kWhole),
      exec_per_step_(kInterToken),
      postprocess_(kWhole) {}

void Metrics::observe_pictures(const std::map<std::string, double>& stage_s, int64_t steps) {
  const auto seconds = [&](const char* stage) {
    auto found = stage_s.find(stage);
    return found == stage_s.end() ? 0 : found->second;
  };
  std::lock_guard lock(mutex_);
  preprocess_.observe(seconds("text_encode"));
  exec_.observe(seconds("denoise"));
  exec_per_step_.observe(seconds("denoise") / static_cast<double>(std::max<int64_t>(1, steps)));
  postprocess_.observe(seconds("decode"));
}

void Metrics::collect(pipeline::Pipeline& pipeline) {
  std::lock_guard lock(mutex_);
  take(pipeline.stats());
}

void Metrics::take(pipeline::Stats stats) {
  for (double seconds : stats.time_to_first_token_s) first_token_.observe(seconds);
  for (double seconds : stats.inter_token_s) inter_token_.observe(seconds);
  for (double seconds : stats.e2e_s) whole_.observe(seconds);
  stats.time_to_first_token_s.clear();
  stats.inter_token_s.clear();
  stats.e2e_s.clear();
  last_ = std::move(stats);
}

void Metrics::count_response(int status) {
  std::lock_guard lock(mutex_);
  ++responses_[status];
}

std::string Metrics::page(pipeline::Pipeline* pipeline, const std::string& model_name) {
  std::lock_guard lock(mutex_);
  if (pipeline) take(pipeline->stats());
  Page page(cat("model_name=\"", escaped(model_name), "\",engine=\"0\",stage=\"0\",replica=\"0\""));
  const bool pictures = pipeline && pipeline->images();
  print_requests(page, last_, pictures);
  if (pictures) {
    page.histogram("vllm_omni:e2e_request_latency_s", "From arrival to the last picture.", whole_);
    page.histogram("vllm_omni:diffusion_preprocess_s", "A request's text encoders.", preprocess_);
    page.histogram("vllm_omni:diffusion_exec_s", "A request's denoising.", exec_);
    page.histogram("vllm_omni:diffusion_exec_per_step_s", "One step of it.", exec_per_step_);
    page.histogram("vllm_omni:diffusion_postprocess_s", "A request's decoding to pixels.", postprocess_);
  } else {
    print_tokens(page, last_);
    page.histogram("vllm:time_to_first_token_seconds", "From arrival to the first token.", first_token_);
    page.histogram("vllm:inter_token_latency_seconds", "Between two tokens of one request.", inter_token_);
    page.histogram("vllm:e2e_request_latency_seconds", "From arrival to the last token.", whole_);
  }
  page.family("quaver:http_responses_total", "counter", "HTTP answers by status.");
  for (const auto& [status, count] : responses_) page.value(count, cat("code=\"", status, "\""));
  return page.take();
}

}  // namespace quaver::server
