// The page of a comparison: no scripts, pictures as PNG in base64, curves as SVG.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/base64.h"
#include "eval/image_metrics.h"
#include "eval/image_report.h"
#include "media/encode.h"

namespace quaver::eval {

namespace {

constexpr const char* kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>quaver compare</title>
<style>
:root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif; }
body { max-width: 1100px; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
td, th { padding: .2rem .8rem; text-align: left; border-bottom: 1px solid #8886; }
td.n { text-align: right; font-variant-numeric: tabular-nums; }
figure { display: inline-block; margin: 0 .6rem .6rem 0; width: min(31%, 512px); }
figure img { width: 100%; image-rendering: pixelated; border: 1px solid #8886; }
figcaption, .small { font-size: 13px; color: #888; }
section { border-top: 1px solid #8886; margin-top: 1.5rem; }
.figures { display: flex; flex-wrap: wrap; gap: 1.5rem; align-items: center; }
.missed { color: #c33; } .met { color: #283; }
svg text { font: 11px system-ui, sans-serif; fill: currentColor; }
</style></head><body>
)";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string number(double value) {
  if (!std::isfinite(value)) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

std::string figure(const Image& image, const std::string& caption) {
  const std::string png = base64_encode(encode_png(image));
  return cat("<figure><img alt=\"", escaped(caption), "\" src=\"data:image/png;base64,", png,
             "\"><figcaption>", escaped(caption), "</figcaption></figure>\n");
}

// The latents' relative L2 after each step, as a line from the first step to the last.
std::string curve(const std::vector<Difference>& steps) {
  constexpr double kWidth = 480, kHeight = 120, kLeft = 60, kTop = 12;
  double most = 0;
  for (const Difference& step : steps)
    if (std::isfinite(step.relative_l2)) most = std::max(most, step.relative_l2);
  const auto last = static_cast<double>(std::max<size_t>(1, steps.size() - 1));
  std::string points;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!std::isfinite(steps[i].relative_l2)) continue;
    const double share = most > 0 ? steps[i].relative_l2 / most : 0;
    points += cat(number(kLeft + kWidth * static_cast<double>(i) / last), ",",
                  number(kTop + kHeight * (1 - share)), " ");
  }
  const double bottom = kTop + kHeight, right = kLeft + kWidth;
  return cat("<svg width=\"", right + 20, "\" height=\"", bottom + 34,
             "\" role=\"img\" aria-label=\"latents over the steps\"><path d=\"M", kLeft, " ", kTop, "V",
             bottom, "H", right,
             "\" fill=\"none\" stroke=\"currentColor\" opacity=\".5\"/><polyline points=\"", points,
             "\" fill=\"none\" stroke=\"#36c\" stroke-width=\"2\"/><text x=\"", kLeft - 6, "\" y=\"",
             kTop + 4, "\" text-anchor=\"end\">", number(most), "</text><text x=\"", kLeft - 6, "\" y=\"",
             bottom, "\" text-anchor=\"end\">0</text><text x=\"", kLeft, "\" y=\"", bottom + 16,
             "\">step 1</text><text x=\"", right, "\" y=\"", bottom + 16, "\" text-anchor=\"end\">step ",
             steps.size(), "</text><text x=\"", kLeft + kWidth / 2, "\" y=\"", bottom + 30,
             "\" text-anchor=\"middle\">relative L2 of the latents after each step</text></svg>\n");
}

std::string model_text(const VariantSettings& variant) {
  std::string text = variant.model;
  for (const std::string& lora : variant.loras) text += cat(" + ", lora);
  return text;
}

std::string variant_row(const char* label, const VariantSettings& variant, const ImageRun& run) {
  double seconds = 0;
  for (const double s : run.seconds) seconds += s / static_cast<double>(run.seconds.size());
  const std::optional<int64_t>& peak = run.peak_bytes.front();
  return cat("<tr><td>", label, "</td><td>", escaped(model_text(variant)), "</td><td>",
             escaped(variant.quantization.empty() ? "as stored" : variant.quantization), "</td><td>",
             escaped(variant.cache), "</td><td>", escaped(variant.dtype), "</td><td class=\"n\">",
             number(seconds), "</td><td class=\"n\">", peak ? cat(*peak >> 20) : "-", "</td></tr>\n");
}

std::string head_of(const ImageReport& report) {
  const diffusion::ImageSpec& spec = report.specs.front();
  return cat("<h1>Candidate and reference</h1>\n<p>", report.pictures.size(),
             report.pictures.size() == 1 ? " pair" : " pairs", " of ", spec.width, "x", spec.height, ", ",
             spec.steps, " steps, guidance ", number(report.guidance_scale),
             ", from the same "
             "noise.</p>\n<table><tr><th></th><th>model</th><th>quantization</th><th>cache</th><th>dtype"
             "</th><th>seconds</th><th>peak, MiB</th></tr>\n",
             variant_row("reference", report.reference, report.reference_run),
             variant_row("candidate", report.candidate, report.candidate_run), "</table>\n");
}

std::string means_of(const std::vector<PictureComparison>& pictures) {
  std::string out =
      "<table><tr><th>mean over pairs (of PSNR: over those that are not identical)</th><th>mean</th><th>95% "
      "interval</th></tr>\n";
  for (const PictureMetric& metric : picture_metrics()) {
    const MeanEstimate mean = mean_of(metric, pictures);
    out += cat("<tr><td>", metric.text, "</td><td class=\"n\">", mean.count > 0 ? number(mean.mean) : "-",
               "</td><td class=\"n\">",
               mean.interval ? cat(number(mean.interval->low), " to ", number(mean.interval->high)) : "-",
               "</td></tr>\n");
  }
  return out + "</table>\n";
}

std::string limits_of(const ImageReport& report) {
  std::string out;
  for (const LimitResult& result : report.limits)
    out += cat("<p class=\"", result.failed > 0 ? "missed" : "met", "\">",
               escaped(sentence_of(result, report.pictures)), "</p>\n");
  return out;
}

std::string numbers_of(const PictureComparison& picture) {
  std::string out = "<table class=\"small\">";
  for (const PictureMetric& metric : picture_metrics())
    out += cat("<tr><td>", metric.text, "</td><td class=\"n\">", number(metric.value(picture)), "</td></tr>");
  return out + "</table>\n";
}

std::string section_of(const ImageReport& report, size_t index, double gain) {
  const PictureComparison& picture = report.pictures[index];
  const Image &a = report.reference_run.pictures[index].image,
              &b = report.candidate_run.pictures[index].image;
  std::string out = cat("<section><h2>", escaped(picture.prompt), "</h2>\n<p class=\"small\">seed ",
                        picture.seed, picture.pixels.identical ? "; both are identical" : "");
  for (const std::string& note : report.reference_run.pictures[index].notes) out += cat("; ", escaped(note));
  return out + cat("</p>\n", figure(a, "reference"), figure(b, "candidate"),
                   figure(difference_picture(a, b, gain), cat("difference x ", gain, ", grey = none")),
                   "<div class=\"figures\">", curve(picture.steps), numbers_of(picture),
                   "</div></section>\n");
}

}  // namespace

std::string report_html(const ImageReport& report, double gain) {
  std::string out = cat(kHead, head_of(report), limits_of(report), means_of(report.pictures));
  for (size_t i = 0; i < report.pictures.size(); ++i) out += section_of(report, i, gain);
  return out + "</body></html>\n";
}

}  // namespace quaver::eval
