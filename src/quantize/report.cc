#include "quantize/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/mapped_file.h"

namespace quaver::quantize {
namespace {

std::string number(double value, const char* format) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

std::string megabytes(int64_t bytes) { return number(static_cast<double>(bytes) / 1e6, "%.2f MB"); }

// One polyline of the blocks' losses on a logarithmic axis, 760 x 240.
class LossPlot {
 public:
  explicit LossPlot(const std::vector<BlockReport>& blocks) : blocks_(blocks) {
    for (const BlockReport& block : blocks) {
      include(block.loss_before);
      include(block.loss_after);
    }
  }

  bool empty() const { return high_ < low_ || blocks_.size() < 2; }

  std::string svg() const {
    std::string out =
        "<svg viewBox='0 0 800 270' role='img' aria-label='Loss per block before and after tuning'>";
    for (double power = std::floor(low_); power <= std::ceil(high_); ++power)
      out +=
          cat("<line x1='60' x2='780' y1='", y(power), "' y2='", y(power), "' stroke='#ddd'/><text x='4' y='",
              y(power) + 4, "'>1e", static_cast<int>(power), "</text>");
    out += line(&BlockReport::loss_before, "#c2410c") + line(&BlockReport::loss_after, "#1d4ed8");
    return out + "<text x='400' y='266'>block</text></svg>";
  }

 private:
  void include(double loss) {
    if (loss <= 0) return;
    low_ = std::min(low_, std::log10(loss));
    high_ = std::max(high_, std::log10(loss));
  }
  double y(double power) const {
    double bottom = std::floor(low_), top = std::max(bottom + 1, std::ceil(high_));
    return std::round(245 - (power - bottom) / (top - bottom) * 230);
  }
  std::string line(double BlockReport::*loss, const char* colour) const {
    std::string points;
    double width = 720.0 / static_cast<double>(blocks_.size() - 1);
    for (size_t i = 0; i < blocks_.size(); ++i)
      if (blocks_[i].*loss > 0)
        points +=
            cat(std::round(60 + static_cast<double>(i) * width), ",", y(std::log10(blocks_[i].*loss)), " ");
    return cat("<polyline fill='none' stroke-width='2' stroke='", colour, "' points='", points, "'/>");
  }

  const std::vector<BlockReport>& blocks_;
  double low_ = 1e9, high_ = -1e9;
};

std::string table_row(const BlockReport& block, const LayerReport& layer) {
  return cat("<tr><td>", escaped(layer.name), "</td><td>", layer.scheme_name, "</td><td class='n'>",
             megabytes(layer.source_bytes), "</td><td class='n'>", megabytes(layer.bytes),
             "</td><td class='n'>", number(block.loss_before, "%.3e"), "</td><td class='n'>",
             number(block.loss_after, "%.3e"), "</td><td>", escaped(layer.remark), "</td></tr>\n");
}

constexpr std::string_view kStyle =
    "body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:1100px;padding:0 1rem;color:#1f2937}"
    "table{border-collapse:collapse;width:100%;font-size:13px}td,th{padding:.2rem .5rem;border-bottom:1px "
    "solid #e5e7eb;"
    "text-align:left}.n{text-align:right;font-variant-numeric:tabular-nums}svg{width:100%;font-size:12px}"
    ".before{color:#c2410c}.after{color:#1d4ed8}";

}  // namespace

json to_json(const BlockReport& block) {
  json layers = json::array();
  for (const LayerReport& layer : block.layers)
    layers.push_back({{"name", layer.name},
                      {"scheme", layer.scheme_name},
                      {"bits", layer.scheme.bits},
                      {"group_size", layer.scheme.group_size},
                      {"sym", layer.scheme.sym},
                      {"source_bytes", layer.source_bytes},
                      {"bytes", layer.bytes},
                      {"remark", layer.remark}});
  return {{"index", block.index},           {"loss_before", block.loss_before},
          {"loss_after", block.loss_after}, {"best_step", block.best_step},
          {"seconds", block.seconds},       {"layers", layers}};
}

BlockReport block_report_from_json(const json& value, const std::string& what) {
  BlockReport block{.index = json_required<int64_t>(value, "index", what),
                    .loss_before = json_required<double>(value, "loss_before", what),
                    .loss_after = json_required<double>(value, "loss_after", what),
                    .best_step = json_required<int64_t>(value, "best_step", what),
                    .seconds = json_required<double>(value, "seconds", what)};
  for (const json& layer : json_required<json>(value, "layers", what))
    block.layers.push_back({.name = json_required<std::string>(layer, "name", what),
                            .scheme_name = json_required<std::string>(layer, "scheme", what),
                            .scheme = {json_required<int>(layer, "bits", what),
                                       json_required<int64_t>(layer, "group_size", what),
                                       json_required<bool>(layer, "sym", what)},
                            .remark = json_required<std::string>(layer, "remark", what),
                            .source_bytes = json_required<int64_t>(layer, "source_bytes", what),
                            .bytes = json_required<int64_t>(layer, "bytes", what)});
  return block;
}

json to_json(const RunReport& run) {
  json blocks = json::array();
  for (const BlockReport& block : run.blocks) blocks.push_back(to_json(block));
  return {
      {"model", run.model},   {"format", run.format},           {"method", run.method},
      {"scheme", run.scheme}, {"calibration", run.calibration}, {"source_bytes", run.source_bytes},
      {"bytes", run.bytes},   {"seconds", run.seconds},         {"peak_memory_bytes", run.peak_memory_bytes},
      {"blocks", blocks}};
}

std::string to_html(const RunReport& run) {
  std::string page =
      cat("<!doctype html><html lang='en'><meta charset='utf-8'><title>Quantization report</title><style>",
          kStyle, "</style><h1>Quantization report</h1><p><b>", escaped(run.model), "</b>, ",
          escaped(run.scheme), ", method ", escaped(run.method), ", format ", escaped(run.format), ".<br>",
          megabytes(run.source_bytes), " before, ", megabytes(run.bytes), " after (",
          number(100.0 * static_cast<double>(run.bytes) /
                     static_cast<double>(std::max<int64_t>(1, run.source_bytes)),
                 "%.1f"),
          "&nbsp;%); ", number(run.seconds, "%.0f"), " s; peak memory ", megabytes(run.peak_memory_bytes),
          ".<br>Calibration: ", escaped(run.calibration), ".</p>\n");
  LossPlot plot(run.blocks);
  if (!plot.empty())
    page += cat(
        "<h2>Loss per block</h2><p>Mean squared error of the block's output on rows held out from tuning: "
        "<b class='before'>plain rounding</b>, <b class='after'>tuned</b>.</p>",
        plot.svg(), "\n");
  page +=
      "<h2>Layers</h2><table><tr><th>layer</th><th>scheme</th><th>before</th><th>after</th><th>block loss, "
      "plain</th>"
      "<th>tuned</th><th>remark</th></tr>\n";
  for (const BlockReport& block : run.blocks)
    for (const LayerReport& layer : block.layers) page += table_row(block, layer);
  return page + "</table></html>\n";
}

void write_reports(const RunReport& run, const std::filesystem::path& folder) {
  write_file_atomically(folder / "report.json", to_json(run).dump(1) + "\n");
  write_file_atomically(folder / "report.html", to_html(run));
}

}  // namespace quaver::quantize
