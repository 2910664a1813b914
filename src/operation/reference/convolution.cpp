// Reference conv_general and its two adjoint sums: plain loops, each sum from zero in ordinal order, unfused.
#include <algorithm>
#include <array>

#include "operation/convolution.hpp"
#include "operation/modes.hpp"
#include "operation/reference/kernels.hpp"
#include "operation/strided_copy.hpp"

namespace orlop::inline v0 {

namespace {

/// A copy of an operand with its roles in this order and the spatial ones behind, first fastest.
std::vector<float> copy_in_order(const KernelOperand& operand, std::span<const std::size_t> roles,
                                 std::array<std::size_t, 2> order) {
  std::vector<std::size_t> modes(roles.begin(), roles.end());
  modes[0] = roles[order[0]];
  modes[1] = roles[order[1]];
  const Layout layout = operand.layout->select(modes);
  std::vector<float> values(static_cast<std::size_t>(layout.size()));
  copy_strided(operand.data, layout, reinterpret_cast<std::byte*>(values.data()),
               Layout::canonical(layout.shape()), sizeof(float));
  return values;
}

Index size_of_role(const KernelOperand& operand, std::span<const std::size_t> roles, std::size_t role) {
  return leaves_of_modes(*operand.layout, roles[role], roles[role] + 1).size();
}

constexpr std::array<std::size_t, 2> as_it_is{0, 1};
constexpr std::array<std::size_t, 2> swapped{1, 0};

/// One call: its operands, and the sizes that its loops run over.
struct Loops {
  explicit Loops(const KernelCall& call)
      : convolution(*call.parameters.convolution),
        left(call.operands[0]),
        right(call.operands[1]),
        groups(convolution.feature_groups),
        result(reinterpret_cast<float*>(call.result)) {
    for (const ConvolutionMode& mode : convolution.modes) {
      results *= mode.result;
      positions *= mode.lhs;
      taps *= mode.kernel;
    }
  }
  [[nodiscard]] std::vector<float> copy_left(std::array<std::size_t, 2> order) const {
    return copy_in_order(left, convolution.roles[0], order);
  }
  [[nodiscard]] std::vector<float> copy_right(std::array<std::size_t, 2> order) const {
    return copy_in_order(right, convolution.roles[1], order);
  }
  [[nodiscard]] Index left_size(std::size_t role) const {
    return size_of_role(left, convolution.roles[0], role);
  }
  [[nodiscard]] Index right_size(std::size_t role) const {
    return size_of_role(right, convolution.roles[1], role);
  }

  const Convolution& convolution;
  const KernelOperand& left;
  const KernelOperand& right;
  Index groups;
  Index results = 1, positions = 1, taps = 1;  // spatial sizes
  float* result;
};

void add_products(std::vector<float>& sums, float factor, const float* values) {
  for (float& sum : sums) sum += factor * *values++;
}

/// result[b, o, r] = Σ lhs[b, i, p] · kernel[o, i, t]: in features fastest, then taps.
void sum_results(const Loops& loops) {
  const std::vector<float> lhs = loops.copy_left(swapped);       // [feature, batch, position]
  const std::vector<float> kernel = loops.copy_right(as_it_is);  // [out, in, tap]
  const Index batch = loops.left_size(0), features = loops.left_size(1);
  const Index out = loops.right_size(0), in = loops.right_size(1);
  const Index group_out = out / loops.groups;
  const std::vector<Window> windows = windows_of(loops.convolution, window_over_lhs);
  const std::vector<float> holes(static_cast<std::size_t>(in));
  std::vector<float> sums(static_cast<std::size_t>(group_out));
  std::vector<Index> sources;
  for (Index r = 0; r < loops.results; ++r) {
    find_sources(windows, r, sources);
    for (Index group = 0; group < loops.groups; ++group)
      for (Index b = 0; b < batch; ++b) {
        std::fill(sums.begin(), sums.end(), 0.0F);
        const float* weights = kernel.data() + group * group_out;
        for (const Index source : sources) {
          const float* const values = source == Window::hole
                                          ? holes.data()
                                          : lhs.data() + group * in + features * (b + batch * source);
          for (Index i = 0; i < in; ++i, weights += out) add_products(sums, values[i], weights);
        }
        for (Index o = 0; o < group_out; ++o)
          loops.result[b + batch * (group * group_out + o + out * r)] = sums[static_cast<std::size_t>(o)];
      }
  }
}

/// result[b, i, p] = Σ cotangent[b, o, r] · kernel[o, i, t], holes left out: out features fastest, then taps.
void sum_lhs_gradient(const Loops& loops) {
  const std::vector<float> cotangent = loops.copy_left(swapped);  // [out, batch, result]
  const std::vector<float> kernel = loops.copy_right(swapped);    // [in, out, tap]
  const Index batch = loops.left_size(0), out = loops.left_size(1), in = loops.right_size(1);
  const Index group_out = out / loops.groups;
  const Index features = in * loops.groups;
  const std::vector<Window> windows = windows_of(loops.convolution, window_over_result);
  std::vector<float> sums(static_cast<std::size_t>(in));
  std::vector<Index> sources;
  for (Index p = 0; p < loops.positions; ++p) {
    find_sources(windows, p, sources);
    std::reverse(sources.begin(), sources.end());  // now tap t is kernel position t
    for (Index group = 0; group < loops.groups; ++group)
      for (Index b = 0; b < batch; ++b) {
        std::fill(sums.begin(), sums.end(), 0.0F);
        for (Index t = 0; t < loops.taps; ++t) {
          const Index source = sources[static_cast<std::size_t>(t)];
          if (source == Window::hole) continue;
          const float* const values = cotangent.data() + group * group_out + out * (b + batch * source);
          const float* weights = kernel.data() + in * (group * group_out + out * t);
          for (Index o = 0; o < group_out; ++o, weights += in) add_products(sums, values[o], weights);
        }
        for (Index i = 0; i < in; ++i)
          loops.result[b + batch * (group * in + i + features * p)] = sums[static_cast<std::size_t>(i)];
      }
  }
}

/// result[o, i, t] = Σ cotangent[b, o, r] · lhs[b, i, p]: batch fastest, then result positions.
void sum_kernel_gradient(const Loops& loops) {
  const std::vector<float> lhs = loops.copy_left(as_it_is);        // [batch, feature, position]
  const std::vector<float> cotangent = loops.copy_right(swapped);  // [out, batch, result]
  const Index batch = loops.left_size(0), features = loops.left_size(1), out = loops.right_size(1);
  const Index in = features / loops.groups, group_out = out / loops.groups;
  const std::vector<Window> windows = windows_of(loops.convolution, window_over_lhs);
  const std::vector<float> holes(static_cast<std::size_t>(batch));
  std::vector<float> sums(static_cast<std::size_t>(group_out));
  std::vector<Index> sources;
  std::vector<Index> by_tap(static_cast<std::size_t>(loops.taps * loops.results));
  for (Index r = 0; r < loops.results; ++r) {
    find_sources(windows, r, sources);
    for (Index t = 0; t < loops.taps; ++t)
      by_tap[static_cast<std::size_t>(r + loops.results * t)] = sources[static_cast<std::size_t>(t)];
  }
  for (Index t = 0; t < loops.taps; ++t)
    for (Index feature = 0; feature < features; ++feature) {
      const Index first_out = feature / in * group_out;
      std::fill(sums.begin(), sums.end(), 0.0F);
      const float* g = cotangent.data() + first_out;
      for (Index r = 0; r < loops.results; ++r) {
        const Index source = by_tap[static_cast<std::size_t>(r + loops.results * t)];
        const float* const values =
            source == Window::hole ? holes.data() : lhs.data() + batch * (feature + features * source);
        for (Index b = 0; b < batch; ++b, g += out) add_products(sums, values[b], g);
      }
      std::copy(sums.begin(), sums.end(), loops.result + first_out + out * (feature % in + in * t));
    }
}

void conv_general(const KernelCall& call) {
  const Loops loops(call);
  switch (loops.convolution.sum) {
    case ConvolutionSum::result:
      return sum_results(loops);
    case ConvolutionSum::lhs_gradient:
      return sum_lhs_gradient(loops);
    case ConvolutionSum::kernel_gradient:
      return sum_kernel_gradient(loops);
  }
}

}  // namespace

KernelList reference_convolution_kernels() {
  static constexpr KernelEntry list[] = {{"conv_general", conv_general}};
  return list;
}

}  // namespace orlop::inline v0
