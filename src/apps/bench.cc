// quaver bench: tokens per second of a model, in the rows and columns of llama-bench.
#include <cstdio>
#include <filesystem>

#include "apps/commands.h"
#include "apps/model_argument.h"
#include "apps/text_flags.h"
#include "base/error.h"
#include "base/progress.h"
#include "base/thread_pool.h"
#include "eval/speed.h"
#include "nn/device.h"

namespace quaver::apps {
namespace {

struct BenchFlags {
  pipeline::TextPipelineOptions model;
  std::vector<int64_t> prompts{512}, generations{128}, depths{0}, sequences{1};
  std::vector<std::string> both;  // "512,128"
  int64_t repetitions = 5;
  int threads = 0;
  std::string output = "md";
};

std::pair<int64_t, int64_t> parse_pair(const std::string& text) {
  long prompt = 0, generate = 0;
  int used = 0;
  bool whole = std::sscanf(text.c_str(), "%ld,%ld%n", &prompt, &generate, &used) == 2 &&
               static_cast<size_t>(used) == text.size() && prompt > 0 && generate > 0;
  require(whole, ErrorKind::kInvalidInput, "--pg takes two numbers of tokens like 512,128, got '", text, "'");
  return {prompt, generate};
}

// Every kind of test at every depth and with every number of sequences.
std::vector<eval::SpeedTest> tests_of(const BenchFlags& flags) {
  std::vector<eval::SpeedTest> kinds;
  for (int64_t prompt : flags.prompts)
    if (prompt > 0) kinds.push_back({.prompt = prompt});
  for (int64_t generate : flags.generations)
    if (generate > 0) kinds.push_back({.generate = generate});
  for (const std::string& text : flags.both) {
    auto [prompt, generate] = parse_pair(text);
    kinds.push_back({.prompt = prompt, .generate = generate});
  }
  require(!kinds.empty(), ErrorKind::kInvalidInput, "nothing to measure: -p and -n are both 0");
  std::vector<eval::SpeedTest> tests;
  for (int64_t depth : flags.depths)
    for (int64_t sequences : flags.sequences)
      for (eval::SpeedTest test : kinds) {
        test.depth = depth, test.sequences = sequences;
        tests.push_back(test);
      }
  return tests;
}

// The engine must hold the longest test and take all its sequences at once.
pipeline::TextPipelineOptions sized_for(pipeline::TextPipelineOptions options,
                                        const std::vector<eval::SpeedTest>& tests) {
  options.model = resolve_model(options.model);
  for (const eval::SpeedTest& test : tests)
    options.max_num_seqs = std::max(options.max_num_seqs, test.sequences);
  return options;
}

int run_bench(const BenchFlags& flags) {
  require(flags.output == "md" || flags.output == "json", ErrorKind::kInvalidInput,
          "--output must be md or json, got '", flags.output, "'");
  require(flags.repetitions >= 1, ErrorKind::kInvalidInput, "--repetitions must be at least 1, got ",
          flags.repetitions);
  require(flags.threads >= 0, ErrorKind::kInvalidInput, "--threads must not be negative, got ",
          flags.threads);
  if (flags.threads > 0) set_global_num_threads(flags.threads);
  std::vector<eval::SpeedTest> tests = tests_of(flags);
  std::unique_ptr<pipeline::TextPipeline> model = pipeline::open_text_pipeline(sized_for(flags.model, tests));
  std::vector<eval::SpeedResult> results;
  std::unique_ptr<ProgressSink> progress = make_terminal_progress("measuring");
  for (const eval::SpeedTest& test : tests) {
    progress->update(static_cast<int64_t>(results.size()), static_cast<int64_t>(tests.size()), test.name());
    results.push_back(eval::measure_speed(*model, test, flags.repetitions));
  }
  progress->finish("done");
  std::filesystem::path path = model->card().path;
  std::string name = path.has_filename() ? path.filename() : path.parent_path().filename();
  c10::Device device = nn::parse_device(flags.model.device);
  eval::SpeedTableOptions options{.model = name,
                                  .backend = device.is_cpu() ? "CPU" : device.str(),
                                  .threads = global_thread_pool().num_threads()};
  std::string text = flags.output == "md" ? eval::speed_markdown(model->card(), options, results)
                                          : eval::speed_json(model->card(), options, results).dump(1) + "\n";
  std::fputs(text.c_str(), stdout);
  return 0;
}

void add_list(CLI::App& app, const std::string& names, std::vector<int64_t>& values,
              const std::string& help) {
  app.add_option(names, values, help)->delimiter(',')->check(CLI::NonNegativeNumber)->capture_default_str();
}

}  // namespace

std::function<int()> add_bench(CLI::App& app) {
  auto flags = std::make_shared<BenchFlags>();
  add_text_model_flags(app, flags->model);
  add_list(app, "-p,--n-prompt", flags->prompts,
           "prompt tokens to read; several with commas, 0 = no such test");
  add_list(app, "-n,--n-gen", flags->generations, "tokens to write; several with commas, 0 = no such test");
  app.add_option("-g,--pg", flags->both, "read and write in one: 512,128; may be given again")
      ->delimiter(' ');
  add_list(app, "-d,--n-depth", flags->depths, "tokens in the cache before; several with commas");
  add_list(app, "-s,--sequences", flags->sequences, "sequences at the same time; several with commas");
  app.add_option("-r,--repetitions", flags->repetitions, "of each test, after one to warm up")
      ->capture_default_str();
  app.add_option("-t,--threads", flags->threads, "threads of the kernels; 0 = one per processor")
      ->capture_default_str();
  app.add_option("-o,--output", flags->output, "md or json")->capture_default_str();
  return [flags] { return run_bench(*flags); };
}

}  // namespace quaver::apps
