#include "kernels/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/attention/tile.h"
#include "kernels/isa.h"
#include "kernels/parallel.h"

namespace quaver::kernels {
namespace {

// Positions are always cut at multiples of this and the pieces joined in order, whoever computes them: that
// is what makes a query's bits independent of the work's division. A multiple of kChunk.
constexpr int64_t kSplit = 256;
// With fewer tiles than this per thread the pieces of one tile go to different threads.
constexpr int64_t kTilesPerThread = 4;

// All queries of one sequence, and where its keys and values are.
struct Sequence {
  int64_t query_start, query_length, context_length;
  KvRows keys, values;     // of kv head 0
  int64_t kv_head_stride;  // bytes
};

struct Call {
  AttentionShape shape;
  KvElement element;
  int64_t kv_heads, head_dim, group;
  const float* q;
  int64_t q_stride;
  float* y;
  int64_t y_stride;
  std::vector<Sequence> sequences;
  ThreadPool* pool;
  void (*run_tile)(const AttentionTile&);
  const KvCacheView* cache = nullptr;  // for its scales; null = none
};

// Some consecutive queries of one sequence and kv head, and the range of positions that any of them sees.
struct Work {
  const Sequence* sequence;
  int64_t kv_head, first_token, tokens;
  int64_t begin, end;

  int64_t pieces() const { return (end + kSplit - 1) / kSplit - begin / kSplit; }
};

// The running result of the rows of one tile.
struct State {
  float* max;
  float* sum;
  float* out;

  static int64_t floats(int64_t rows, int64_t channels) { return rows * (channels + 2); }
  State(float* memory, int64_t rows) : max(memory), sum(memory + rows), out(memory + 2 * rows) {}
  void clear(int64_t rows, int64_t channels) const {
    std::fill_n(max, rows, -std::numeric_limits<float>::infinity());
    std::fill_n(sum, rows * (channels + 1), 0.0f);
  }
};

std::vector<float>& thread_scratch() {
  thread_local std::vector<float> scratch;
  return scratch;
}

float* reserve(std::vector<float>& memory, int64_t floats) {
  if (memory.size() < static_cast<size_t>(floats)) memory.resize(static_cast<size_t>(floats));
  return memory.data();
}

std::vector<Work> divide(const Call& call) {
  std::vector<Work> work;
  int64_t step = std::max<int64_t>(1, kTileRows / call.group);
  for (const Sequence& s : call.sequences)
    for (int64_t head = 0; head < call.kv_heads; ++head)
      for (int64_t t = 0; t < s.query_length; t += step) {
        int64_t tokens = std::min(step, s.query_length - t);
        int64_t position = s.context_length - s.query_length + t;
        int64_t begin = call.shape.window > 0 ? std::max<int64_t>(0, position - call.shape.window + 1) : 0;
        work.push_back({&s, head, t, tokens, begin, position + tokens});
      }
  return work;
}

// Piece `piece` of a tile into `state`, for heads [first, first + count) of the kv head's group.
void run_piece(const Call& call, const Work& w, int64_t piece, const State& state, float* scratch) {
  const Sequence& s = *w.sequence;
  int64_t channels = padded_channels(call.head_dim), rows = w.tokens * call.group;
  state.clear(rows, channels);
  auto of_head = [&](KvRows all) {
    all.base += w.kv_head * s.kv_head_stride;
    return all;
  };
  int64_t start = (w.begin / kSplit + piece) * kSplit;
  call.run_tile(
      {.keys = of_head(s.keys),
       .values = of_head(s.values),
       .element = call.element,
       .head_dim = call.head_dim,
       .q = call.q + (s.query_start + w.first_token) * call.q_stride + w.kv_head * call.group * call.head_dim,
       .q_stride = call.q_stride,
       .group = call.group,
       .tokens = w.tokens,
       .first_position = s.context_length - s.query_length + w.first_token,
       .scale = call.shape.scale * (call.cache ? call.cache->key_scale(w.kv_head) : 1.0f),
       .softcap = call.shape.softcap,
       .window = call.shape.window,
       .begin = start,
       .end = std::min(w.end, start + kSplit),
       .max = state.max,
       .sum = state.sum,
       .out = state.out,
       .out_stride = channels,
       .scratch = scratch});
}

// total <- total joined with next, row by row; a row that saw nothing in `next` stays as it is.
void join(const State& total, const State& next, int64_t rows, int64_t channels) {
  for (int64_t r = 0; r < rows; ++r) {
    if (next.max[r] == -std::numeric_limits<float>::infinity()) continue;
    float max = std::max(total.max[r], next.max[r]);
    float old_share = std::exp(total.max[r] - max), new_share = std::exp(next.max[r] - max);
    total.max[r] = max;
    total.sum[r] = total.sum[r] * old_share + next.sum[r] * new_share;
    float* out = total.out + r * channels;
    const float* add = next.out + r * channels;
    for (int64_t i = 0; i < channels; ++i) out[i] = out[i] * old_share + add[i] * new_share;
  }
}

// What a row's sum of weighted values is multiplied by.
float share_of_row(const State& state, int64_t r, const float* sink) {
  if (sink == nullptr) return 1.0f / state.sum[r];
  float max = std::max(state.max[r], *sink), share = std::exp(state.max[r] - max);
  return share / (state.sum[r] * share + std::exp(*sink - max));
}

void write_result(const Call& call, const Work& w, const State& state) {
  int64_t channels = padded_channels(call.head_dim);
  const float value_scale = call.cache ? call.cache->value_scale(w.kv_head) : 1.0f;
  for (int64_t r = 0; r < w.tokens * call.group; ++r) {
    int64_t token = w.sequence->query_start + w.first_token + r / call.group;
    int64_t head = w.kv_head * call.group + r % call.group;
    float* y = call.y + token * call.y_stride + head * call.head_dim;
    float share = value_scale * share_of_row(state, r, call.shape.sinks ? call.shape.sinks + head : nullptr);
    for (int64_t i = 0; i < call.head_dim; ++i) y[i] = state.out[r * channels + i] * share;
  }
}

void run_whole(const Call& call, const Work& w) {
  int64_t channels = padded_channels(call.head_dim), rows = w.tokens * call.group;
  int64_t state_floats = State::floats(rows, channels);
  float* memory = reserve(thread_scratch(), 2 * state_floats + tile_scratch_floats(call.head_dim, rows));
  State total(memory, rows), next(memory + state_floats, rows);
  float* scratch = memory + 2 * state_floats;
  run_piece(call, w, 0, total, scratch);
  for (int64_t piece = 1; piece < w.pieces(); ++piece) {
    run_piece(call, w, piece, next, scratch);
    join(total, next, rows, channels);
  }
  write_result(call, w, total);
}

// Every piece of every tile is a job of its own; then the pieces are joined in order, as run_whole does.
void run_split(const Call& call, const std::vector<Work>& work) {
  struct Piece {
    const Work* work;
    int64_t index, offset;
  };
  int64_t channels = padded_channels(call.head_dim), floats = 0;
  std::vector<Piece> pieces;
  std::vector<size_t> first;
  for (const Work& w : work) {
    first.push_back(pieces.size());
    for (int64_t i = 0; i < w.pieces(); ++i) {
      pieces.push_back({&w, i, floats});
      floats += State::floats(w.tokens * call.group, channels);
    }
  }
  std::vector<float> memory(static_cast<size_t>(floats));
  parallel_rows(call.pool, static_cast<int64_t>(pieces.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Piece& p = pieces[static_cast<size_t>(i)];
      int64_t rows = p.work->tokens * call.group;
      float* scratch = reserve(thread_scratch(), tile_scratch_floats(call.head_dim, rows));
      run_piece(call, *p.work, p.index, State(memory.data() + p.offset, rows), scratch);
    }
  });
  for (size_t i = 0; i < work.size(); ++i) {
    int64_t rows = work[i].tokens * call.group;
    State total(memory.data() + pieces[first[i]].offset, rows);
    for (int64_t piece = 1; piece < work[i].pieces(); ++piece)
      join(total, State(memory.data() + pieces[first[i] + static_cast<size_t>(piece)].offset, rows), rows,
           channels);
    write_result(call, work[i], total);
  }
}

void run(const Call& call) {
  std::vector<Work> work = divide(call);
  int64_t threads = call.pool ? call.pool->num_threads() : 1;
  if (threads > 1 && static_cast<int64_t>(work.size()) < threads * kTilesPerThread)
    return run_split(call, work);
  parallel_rows(call.pool, static_cast<int64_t>(work.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) run_whole(call, work[static_cast<size_t>(i)]);
  });
}

KvElement kv_element(DType dtype) {
  if (dtype == DType::kF32) return KvElement::kF32;
  if (dtype == DType::kF8E4M3) return KvElement::kE4M3FN;
  return dtype == DType::kF16 ? KvElement::kF16 : KvElement::kBF16;
}

auto* tile_for(const CpuFeatures& cpu) {
  return pick_isa(cpu, attention_tile_scalar, attention_tile_avx2, attention_tile_avx512);
}

}  // namespace

void paged_attention(const PagedAttentionArgs& args, const CpuFeatures& cpu) {
  const KvCacheView& cache = args.cache;
  int64_t row = cache.head_dim * dtype_info(cache.dtype).block_bytes, head = cache.block_size * row;
  Call call = {.shape = args.shape,
               .element = kv_element(cache.dtype),
               .kv_heads = cache.kv_heads,
               .head_dim = cache.head_dim,
               .group = args.shape.heads / cache.kv_heads,
               .q = args.q,
               .q_stride = args.q_stride,
               .y = args.y,
               .y_stride = args.y_stride,
               .sequences = {},
               .pool = args.pool,
               .run_tile = tile_for(cpu),
               .cache = &cache};
  for (const AttentionSequence& s : args.sequences) {
    KvRows keys = {static_cast<const char*>(cache.keys), s.block_table, cache.block_size,
                   cache.kv_heads * head, row};
    KvRows values = keys;
    values.base = static_cast<const char*>(cache.values);
    call.sequences.push_back({s.query_start, s.query_length, s.context_length, keys, values, head});
  }
  run(call);
}

void dense_attention(const DenseAttentionArgs& args, const CpuFeatures& cpu) {
  int64_t row = args.head_dim * static_cast<int64_t>(sizeof(float)), token = args.kv_heads * row;
  Call call = {.shape = args.shape,
               .element = KvElement::kF32,
               .kv_heads = args.kv_heads,
               .head_dim = args.head_dim,
               .group = args.shape.heads / args.kv_heads,
               .q = args.q,
               .q_stride = args.shape.heads * args.head_dim,
               .y = args.y,
               .y_stride = args.shape.heads * args.head_dim,
               .sequences = {},
               .pool = args.pool,
               .run_tile = tile_for(cpu)};
  int64_t start = 0;
  for (int64_t length : args.lengths) {
    auto rows = [&](const float* base) {
      return KvRows{reinterpret_cast<const char*>(base) + start * token, nullptr, 0, 0, token};
    };
    call.sequences.push_back({start, length, length, rows(args.k), rows(args.v), row});
    start += length;
  }
  run(call);
}

void write_kv(const WriteKvArgs& args, const CpuFeatures& cpu) {
  auto* store = pick_isa(cpu, store_kv_row_scalar, store_kv_row_avx2, store_kv_row_avx512);
  const KvCacheView& cache = args.cache;
  int64_t row = cache.head_dim * dtype_info(cache.dtype).block_bytes;
  KvElement element = kv_element(cache.dtype);
  auto tokens = static_cast<int64_t>(args.slots.size());
  parallel_rows(
      args.pool, tokens, row_grain(2 * cache.kv_heads * cache.head_dim), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          int64_t slot = args.slots[static_cast<size_t>(t)];
          if (slot < 0) continue;
          int64_t block = slot / cache.block_size, place = slot % cache.block_size;
          for (int64_t h = 0; h < cache.kv_heads; ++h) {
            int64_t offset = ((block * cache.kv_heads + h) * cache.block_size + place) * row;
            store(static_cast<char*>(cache.keys) + offset, args.k + t * args.k_stride + h * cache.head_dim,
                  cache.head_dim, element, cache.key_scale(h));
            store(static_cast<char*>(cache.values) + offset, args.v + t * args.v_stride + h * cache.head_dim,
                  cache.head_dim, element, cache.value_scale(h));
          }
        }
      });
}

}  // namespace quaver::kernels
