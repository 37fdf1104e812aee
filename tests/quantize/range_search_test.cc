// The search for starting ranges against a plain loop over its grid.
#include "quantize/range_search.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "quantize/qdq_aten.h"

namespace quaver::quantize {
namespace {

constexpr int64_t kOut = 300, kIn = 1000;  // several chunks of rows, and a short last group

QdqTensors problem(int64_t group) {
  at::manual_seed(11);
  int64_t groups = (kIn + group - 1) / group;
  return {at::randn({kOut, kIn}) * 0.05, at::zeros({kOut, kIn}), at::ones({kOut, groups}),
          at::ones({kOut, groups}), group};
}

at::Tensor searched(const QdqTensors& tensors, const Scheme& scheme, const at::Tensor& importance) {
  return search_ranges(
      tensors.weight, {1, tensors.group}, importance, [&](int64_t first, int64_t count, float r) {
        QdqTensors rows{tensors.weight.narrow(0, first, count), tensors.value.narrow(0, first, count),
                        at::full_like(tensors.alpha.narrow(0, first, count), r),
                        at::full_like(tensors.alpha.narrow(0, first, count), r), tensors.group};
        return qdq_forward_aten(rows, scheme).fake;
      });
}

double group_error(const QdqTensors& tensors, const at::Tensor& fake, const at::Tensor& importance,
                   int64_t row, int64_t group) {
  int64_t begin = group * tensors.group, count = std::min(tensors.group, kIn - begin);
  at::Tensor difference = (fake - tensors.weight)[row].narrow(0, begin, count).to(at::kDouble);
  return (difference.square() * importance.narrow(0, begin, count)).sum().item<double>();
}

TEST(RangeSearch, NoRatioOfTheGridIsBetter) {
  for (Scheme scheme : {Scheme{2, 64, true}, Scheme{2, 64, false}, Scheme{4, 128, true}}) {
    QdqTensors tensors = problem(scheme.group_size);
    at::Tensor importance = at::rand({kIn});
    auto fake_at = [&](const at::Tensor& ranges) {
      tensors.alpha = tensors.beta = ranges;
      return qdq_forward_aten(tensors, scheme).fake;
    };
    at::Tensor ratio = searched(tensors, scheme, importance), found = fake_at(ratio);
    for (int step = 15; step <= 75; ++step) {
      at::Tensor other = fake_at(at::full_like(ratio, static_cast<float>(step) / 50.0f));
      for (int64_t row : {0, 150, 299})
        for (int64_t group : {int64_t{0}, ratio.size(1) - 1})
          EXPECT_LE(group_error(tensors, found, importance, row, group),
                    group_error(tensors, other, importance, row, group) * 1.00001)
              << to_string(scheme) << " row " << row << " group " << group << " step " << step;
    }
  }
}

TEST(RangeSearch, TwoBitsGainMuchAndChannelsThatMatterDecide) {
  Scheme scheme{2, 64, true};
  QdqTensors tensors = problem(64);
  auto error = [&](const at::Tensor& ranges, const at::Tensor& importance) {
    tensors.alpha = tensors.beta = ranges;
    at::Tensor difference = qdq_forward_aten(tensors, scheme).fake - tensors.weight;
    return (difference.square() * importance).sum().item<double>();
  };
  at::Tensor alike = at::ones({kIn}), importance = at::rand({kIn}).pow(4);
  at::Tensor whole = at::ones({kOut, tensors.alpha.size(1)});
  at::Tensor unweighted = searched(tensors, scheme, {}), weighted = searched(tensors, scheme, importance);
  EXPECT_LT(error(unweighted, alike), 0.9 * error(whole, alike));
  EXPECT_LT(error(weighted, importance), error(unweighted, importance));
}

TEST(RangeSearch, GroupsThatNothingImprovesKeepTheWholeRange) {
  QdqTensors tensors = problem(64);
  tensors.weight.zero_();
  EXPECT_TRUE(at::equal(searched(tensors, {2, 64, true}, {}), at::ones({kOut, tensors.alpha.size(1)})));
}

}  // namespace
}  // namespace quaver::quantize
