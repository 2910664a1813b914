// How each operation becomes dispatches of the shipped kernels (kernels/metal/families.py).
//
// Kernels read contiguous slots. An operand in another layout, or one to be converted, is first copied by the
// `copy` kernel into a temporary buffer, in the order of modes that the kernel wants; a result that comes in
// another order is copied out the same way.
#include "carriers/metal/kernels.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "carriers/metal/kernel_manifest.hpp"
#include "carriers/metal/slots.hpp"
#include "operation/convolution.hpp"
#include "operation/elementwise_functions.hpp"
#include "operation/exact_integer.hpp"
#include "operation/modes.hpp"
#include "operation/plan_table.hpp"
#include "orlop/carriers/metal/metal.hpp"
#include "orlop/layout/iteration.hpp"

namespace orlop::inline v0 {

namespace {

std::string_view letter(StorageType type) {
  return type == StorageType::float32 ? "float" : type == StorageType::int32 ? "int" : "bool";
}

/// Kernels that only move values know slots by their size.
std::string_view moved(StorageType type) { return type == StorageType::bool8 ? "bool" : "int"; }

constexpr std::string_view orders[] = {"_sort_values", "_sort_indices", "_topk_values", "_topk_indices"};

/// The kernel that carries out `plan`, or the first of those that do.
std::string kernel_name(const OperationPlan& plan) {
  const std::string& name = plan.operation;
  const StorageType first = plan.operands.front().convert_to.storage_type();
  const StorageType last = plan.operands.back().convert_to.storage_type();
  if (std::ranges::find(orders, name) != std::end(orders)) return text("sort_keys_", letter(first));
  if (name == "conv_general") return "conv_general_patches";
  if (plan.accumulation == Accumulation::SequentialBinary32Product && name == "_scan") return "scan_products";
  if (name == "select" || name == "gather" || name == "scatter")
    return text(name, '_', moved(plan.output.storage_type()));
  return text(name, '_', letter(last));
}

bool executes(const OperationPlan& plan) {
  if (find_metal_kernel(kernel_name(plan)) == nullptr) return false;
  // The device has no binary64.
  return plan.accumulation != Accumulation::Floating || plan.accumulator_dtype == &dtypes::Float32;
}

using Extents = std::span<const Index>;

/// A value for each name of a kernel's argument list.
template <class T>
using Named = std::initializer_list<std::pair<std::string_view, T>>;

/// An operand as kernels read it: contiguous, or one slot that stands for all.
struct Slots {
  MetalBinding binding;
  std::int64_t step = 1;
};

/// The dispatches of one operation.
class Work {
 public:
  explicit Work(const KernelCall& call)
      : call_(call), runtime_(detail::metal_runtime()), commands_(runtime_->begin()) {}

  [[nodiscard]] Index largest_buffer_slots() const {
    return static_cast<Index>(runtime_->largest_buffer_bytes() / sizeof(float));
  }
  [[nodiscard]] MetalBinding result() const { return find_metal_binding(call_.result); }

  /// MemoryError beyond what kernels count.
  [[nodiscard]] MetalBinding temporary(Index slots, Index slot_bytes = 4) {
    if (slots > Metal::largest_size)
      raise<MemoryError>("Metal", "no memory for a temporary buffer of ", slots,
                         " slots; a Metal buffer has ", Metal::largest_size, " at most");
    return {make_metal_buffer(*runtime_, static_cast<std::size_t>(slots * slot_bytes), false), 0};
  }
  /// Four bytes each.
  [[nodiscard]] MetalBinding numbers(std::span<const Index> values) {
    MetalBinding binding = temporary(static_cast<Index>(values.size()));
    std::vector<std::int32_t> narrow;
    for (const Index value : values) narrow.push_back(static_cast<std::int32_t>(value));
    if (!narrow.empty())  // a layout of one slot has no mode
      std::memcpy(binding.buffer->contents(), narrow.data(), narrow.size() * sizeof(std::int32_t));
    return binding;
  }

  /// Operand number `operand` over `extents` with its strides there, first mode fastest, as `computed`.
  [[nodiscard]] Slots operand(std::size_t operand, Extents extents, Extents strides) {
    const KernelOperand& given = call_.operands[operand];
    if (given.layout == nullptr) return {number(given), 0};
    const bool is_one_slot = std::ranges::all_of(strides, [](Index stride) { return stride == 0; });
    if (is_one_slot && !is_converted(given)) return {find_metal_binding(given.data), 0};
    return {elements(operand, extents, strides), 1};
  }
  /// The same for a kernel that reads every element at its position.
  [[nodiscard]] MetalBinding elements(std::size_t operand, Extents extents, Extents strides) {
    const KernelOperand& given = call_.operands[operand];
    const std::span<const Index> list[] = {strides};
    const StridedLoop loop = coalesce_strides(extents, list);
    MetalBinding slots = find_metal_binding(given.data);
    if (loop.is_contiguous(0) && !is_converted(given)) return slots;
    const std::string kernel = is_converted(given) ? "copy_int_to_float" : text("copy_", moved(given.stored));
    const MetalBinding copy = temporary(loop.size, slot_bytes(given.computed));
    copy_strided(kernel, slots, loop.extents, loop.strides, copy);
    return copy;
  }
  /// In the order of the operand's own leaves.
  [[nodiscard]] MetalBinding elements(std::size_t operand) {
    const Layout& layout = *call_.operands[operand].layout;
    return elements(operand, layout.extents(), layout.strides());
  }
  /// A copy even where the slots are contiguous.
  void copy_operand(std::size_t operand, const MetalBinding& target) {
    const KernelOperand& given = call_.operands[operand];
    copy_strided(text("copy_", moved(given.stored)), find_metal_binding(given.data), given.layout->extents(),
                 given.layout->strides(), target);
  }

  void copy_strided(std::string_view kernel, const MetalBinding& source, Extents extents, Extents strides,
                    const MetalBinding& target) {
    std::vector<Index> layout(extents.begin(), extents.end());
    layout.insert(layout.end(), strides.begin(), strides.end());
    run(kernel, {{"a", source}, {"layout", numbers(layout)}, {"out", target}},
        {{"n", product(extents)}, {"rank", static_cast<Index>(extents.size())}}, product(extents));
  }

  /// One thread for each of `count` elements.
  void run(std::string_view kernel, Named<MetalBinding> buffers, Named<std::int64_t> constants, Index count) {
    const Index threads = find_metal_kernel(kernel)->threads;
    run_groups(kernel, buffers, constants, {static_cast<std::uint32_t>((count + threads - 1) / threads), 1});
  }
  void run_groups(std::string_view name, Named<MetalBinding> buffers, Named<std::int64_t> constants,
                  MetalGrid groups) {
    const MetalKernel& kernel = *find_metal_kernel(name);
    std::vector<MetalBinding> bindings;
    bindings.reserve(kernel.buffers.size());
    for (const std::string_view wanted : kernel.buffers)
      bindings.push_back(wanted == "fault" ? fault() : named(buffers, wanted));
    std::vector<std::int64_t> values;
    values.reserve(kernel.constants.size());
    for (const std::string_view wanted : kernel.constants) values.push_back(named(constants, wanted));
    commands_->encode(*runtime_->pipeline(name), bindings, values, groups);
    used_.insert(used_.end(), bindings.begin(), bindings.end());
  }

  /// Waits for everything. Where a kernel found a value beyond Int32, the reference says which, and raises.
  void finish() {
    commands_->commit();
    commands_->wait();
    if (fault_.buffer == nullptr) return;
    std::int32_t fault = 0;
    std::memcpy(&fault, fault_.buffer->contents(), sizeof fault);
    if (fault == 0) return;
    reference_kernels().find(call_.plan.operation)(call_);
    raise_int32_overflow(call_.plan.operation, " on the device");
  }

 private:
  template <class T>
  static const T& named(Named<T> list, std::string_view wanted) {
    return std::ranges::find(list, wanted, [](const auto& entry) { return entry.first; })->second;
  }
  MetalBinding fault() {
    if (fault_.buffer == nullptr) fault_ = {make_metal_buffer(*runtime_, sizeof(std::int32_t), true), 0};
    return fault_;
  }
  /// A scalar operand in a buffer of its own.
  MetalBinding number(const KernelOperand& operand) {
    MetalBinding binding = temporary(1);
    std::memcpy(binding.buffer->contents(), operand.data, 4);
    return binding;
  }

  const KernelCall& call_;
  std::shared_ptr<MetalRuntime> runtime_;
  std::unique_ptr<MetalCommands> commands_;
  std::vector<MetalBinding> used_;  // alive until the device has finished
  MetalBinding fault_;
};

/// The strides of an operand's leaves where the result is wider.
std::vector<Index> broadcast_strides(const KernelOperand& operand, Extents extents) {
  std::vector<Index> strides(extents.size(), 0);
  if (operand.layout == nullptr || operand.layout->size() == 1) return strides;
  const auto own = operand.layout->extents();
  for (std::size_t leaf = 0; leaf < strides.size(); ++leaf)
    if (own[leaf] != 1) strides[leaf] = operand.layout->strides()[leaf];
  return strides;
}

void elementwise(const KernelCall& call) {
  Work work(call);
  const auto extents = call.layout.extents();
  std::array<Slots, 3> slots;
  for (std::size_t i = 0; i < call.operands.size(); ++i)
    slots[i] = work.operand(i, extents, broadcast_strides(call.operands[i], extents));
  const Index n = call.layout.size();
  work.run(
      kernel_name(call.plan),
      {{"a", slots[0].binding}, {"b", slots[1].binding}, {"c", slots[2].binding}, {"out", work.result()}},
      {{"n", n}, {"step_a", slots[0].step}, {"step_b", slots[1].step}, {"step_c", slots[2].step}}, n);
  work.finish();
}

/// Leaves of modes one after another, for an operand in another order.
struct Order {
  std::vector<Index> extents, strides;
  void append(const Leaves& leaves) {
    extents.insert(extents.end(), leaves.extents.begin(), leaves.extents.end());
    strides.insert(strides.end(), leaves.strides.begin(), leaves.strides.end());
  }
};

/// The operand's rows along its second mode, each of them contiguous.
void reduce(const KernelCall& call) {
  Work work(call);
  const Layout& layout = *call.operands[0].layout;
  const Leaves kept = leaves_of_modes(layout, 0, 1);
  const Leaves reduced = leaves_of_modes(layout, 1, 2);
  Order order;
  order.append(reduced);
  order.append(kept);
  const MetalBinding rows = work.elements(0, order.extents, order.strides);
  const Named<MetalBinding> buffers = {{"a", rows}, {"out", work.result()}};
  const Named<std::int64_t> constants = {{"count", reduced.size()}, {"rows", kept.size()}};
  const std::string kernel = kernel_name(call.plan);
  if (call.plan.accumulation == Accumulation::SequentialBinary32Product)
    work.run(kernel, buffers, constants, kept.size());
  else if (reduced.size() < metal_short_row)
    work.run(kernel + "_short", buffers, constants, kept.size());
  else
    work.run_groups(kernel, buffers, constants, {static_cast<std::uint32_t>(kept.size()), 1});
  work.finish();
}

/// An operation along one mode: rows along it, contiguous, and the way back.
struct Fibres {
  Index before, count, after;
  Order order;
};

Fibres fibres_of(const KernelCall& call) {
  const Layout& layout = *call.operands[0].layout;
  const auto axis = static_cast<std::size_t>(call.parameters.axis);
  const Leaves before = leaves_of_modes(layout, 0, axis);
  const Leaves along = leaves_of_modes(layout, axis, axis + 1);
  const Leaves after = leaves_of_modes(layout, axis + 1, layout.rank());
  Fibres fibres{before.size(), along.size(), after.size(), {}};
  fibres.order.append(along);
  fibres.order.append(before);
  fibres.order.append(after);
  return fibres;
}

/// Rows of `count` results become the mode between `before` and `after`.
void put_back(Work& work, const MetalBinding& rows, const Fibres& fibres, Index count) {
  const Index extents[] = {fibres.before, count, fibres.after};
  const Index strides[] = {count, 1, count * fibres.before};
  work.copy_strided("copy_int", rows, extents, strides, work.result());
}

void scan(const KernelCall& call) {
  Work work(call);
  const Fibres fibres = fibres_of(call);
  const Index rows = fibres.before * fibres.after;
  const MetalBinding sums = work.temporary(rows * fibres.count);
  work.run(kernel_name(call.plan),
           {{"a", work.elements(0, fibres.order.extents, fibres.order.strides)}, {"out", sums}},
           {{"backward", call.parameters.is_backward ? 1 : 0},
            {"count", fibres.count},
            {"exclusive", call.parameters.is_exclusive ? 1 : 0},
            {"rows", rows}},
           rows);
  put_back(work, sums, fibres, fibres.count);
  work.finish();
}

void order(const KernelCall& call) {
  Work work(call);
  const Fibres fibres = fibres_of(call);
  const Index rows = fibres.before * fibres.after;
  const Index kept = call.layout.size() / rows;
  const auto padded = static_cast<Index>(std::bit_ceil(static_cast<std::uint64_t>(fibres.count)));
  const Index pairs = rows * padded;
  const MetalBinding elements = work.elements(0, fibres.order.extents, fibres.order.strides);
  const MetalBinding keys = work.temporary(pairs);
  const MetalBinding places = work.temporary(pairs);
  work.run(kernel_name(call.plan), {{"a", elements}, {"key", keys}, {"place", places}},
           {{"count", fibres.count},
            {"flip", call.parameters.is_descending ? -1 : 0},
            {"n", pairs},
            {"padded", padded}},
           pairs);
  for (Index size = 2; size <= padded; size *= 2)
    for (Index distance = size / 2; distance > 0; distance /= 2)
      work.run("sort_step", {{"key", keys}, {"place", places}},
               {{"distance", distance}, {"n", pairs}, {"padded", padded}, {"size", size}}, pairs);
  const MetalBinding ordered = work.temporary(rows * kept);
  const bool is_values = call.plan.operation.ends_with("_values");
  work.run(is_values ? "sort_take" : "sort_places", {{"a", elements}, {"out", ordered}, {"place", places}},
           {{"count", fibres.count}, {"kept", kept}, {"n", rows * kept}, {"padded", padded}}, rows * kept);
  put_back(work, ordered, fibres, kept);
  work.finish();
}

void index(const KernelCall& call) {
  Work work(call);
  const bool is_gather = call.plan.operation == "gather";
  const Layout& table = *call.operands[0].layout;
  const auto axis = static_cast<std::size_t>(call.parameters.axis);
  const Index before = leaves_of_modes(table, 0, axis).size();
  const Index extent = leaves_of_modes(table, axis, axis + 1).size();
  const Index after = leaves_of_modes(table, axis + 1, table.rank()).size();
  const Index items = call.operands[1].layout->size();
  const Index moved = before * items * after;
  const MetalBinding indices = work.elements(1);
  if (!is_gather) work.copy_operand(0, work.result());
  const MetalBinding values = work.elements(is_gather ? 0 : 2);
  const Index threads = call.plan.operation == "scatter_add" ? before * after : moved;
  const std::string kernel = kernel_name(call.plan);
  const MetalBinding sums = kernel == "scatter_add_int" ? work.temporary(table.size(), 8) : MetalBinding{};
  work.run(
      kernel, {{"a", values}, {"index", indices}, {"out", work.result()}, {"sums", sums}},
      {{"axis", extent}, {"before", before}, {"columns", before * after}, {"items", items}, {"n", moved}},
      threads);
  work.finish();
}

/// A product of matrices as `multiply` of families.py has it.
struct Product {
  Index n, m, k;
  Index pitch_a, pitch_b;
  Index first, inner, pitch_m, pitch_outer;
};

void multiply(Work& work, std::string_view kernel, const MetalBinding& a, const MetalBinding& b,
              const MetalBinding& out, const Product& product) {
  const auto tiles = [](Index extent) {
    return static_cast<std::uint32_t>((extent + metal_tile - 1) / metal_tile);
  };
  work.run_groups(kernel, {{"a", a}, {"b", b}, {"out", out}},
                  {{"count_k", product.k},
                   {"count_m", product.m},
                   {"count_n", product.n},
                   {"first", product.first},
                   {"inner", product.inner},
                   {"pitch_a", product.pitch_a},
                   {"pitch_b", product.pitch_b},
                   {"pitch_m", product.pitch_m},
                   {"pitch_outer", product.pitch_outer}},
                  {tiles(product.n), tiles(product.m)});
}

void matmul(const KernelCall& call) {
  Work work(call);
  const auto extent = [&](std::size_t operand, std::size_t mode) {
    return leaves_of_modes(*call.operands[operand].layout, mode, mode + 1).size();
  };
  const Index n = extent(0, 0), m = extent(1, 0), k = extent(0, 1);
  multiply(work, kernel_name(call.plan), work.elements(0), work.elements(1), work.result(),
           {n, m, k, n, m, 0, n, n, 0});
  work.finish();
}

MetalBinding slots_from(MetalBinding binding, Index slot) {
  binding.offset += static_cast<std::size_t>(slot) * sizeof(float);
  return binding;
}

/// At lhs positions, over the result; tap t is kernel position t.
Window window_of_lhs_gradient(const ConvolutionMode& mode) noexcept {
  return {mode.lhs, mode.kernel, mode.lhs_dilation, -mode.kernel_dilation,
          mode.low, mode.stride, mode.result};
}

/// Whether the kernels find every source in 32 bits.
bool fits_int32(const Window& window) {
  constexpr Int128 most = std::numeric_limits<std::int32_t>::max();
  const auto size = [](Int128 number) { return number < 0 ? -number : number; };
  return (window.positions - 1) * size(window.step) + (window.taps - 1) * size(window.tap_step) +
                 size(window.origin) <=
             most &&
         window.divisor <= most;
}

/// The sizes and operands of one convolution, and its dispatches.
class ConvolutionWork {
 public:
  ConvolutionWork(const KernelCall& call, std::span<const Window> windows)
      : call_(call), convolution_(*call.parameters.convolution), work_(call) {
    std::vector<Index> numbers;
    for (const Window& window : windows) {
      positions_ *= window.positions;
      taps_ *= window.taps;
      numbers.insert(numbers.end(), {window.positions, window.taps, window.step, window.tap_step,
                                     window.origin, window.divisor, window.source});
    }
    geometry_ = work_.numbers(numbers);
  }

  void run() {
    switch (convolution_.sum) {
      case ConvolutionSum::result:
        sum_results();
        break;
      case ConvolutionSum::lhs_gradient:
        sum_lhs_gradient();
        break;
      case ConvolutionSum::kernel_gradient:
        sum_kernel_gradient();
        break;
    }
    work_.finish();
  }

 private:
  /// A rectangle of the matrix of what each tap lies over at each position (`patches` of families.py).
  struct Patches {
    Index first_position, positions, position_pitch;
    Index first_tap, taps, tap_pitch;
  };

  [[nodiscard]] Index extent(std::size_t operand, std::size_t role) const {
    const std::size_t mode = convolution_.roles[operand][role];
    return leaves_of_modes(*call_.operands[operand].layout, mode, mode + 1).size();
  }
  /// Its elements with the roles in this order and the spatial ones behind.
  [[nodiscard]] MetalBinding elements(std::size_t operand, std::array<std::size_t, 2> roles) {
    const std::vector<std::size_t>& given = convolution_.roles[operand];
    std::vector<std::size_t> modes = given;
    modes[0] = given[roles[0]];
    modes[1] = given[roles[1]];
    Order order;
    for (const std::size_t mode : modes)
      order.append(leaves_of_modes(*call_.operands[operand].layout, mode, mode + 1));
    return work_.elements(operand, order.extents, order.strides);
  }
  [[nodiscard]] Index modes() const { return static_cast<Index>(convolution_.modes.size()); }

  /// How many lines of `length` slots a buffer of patches holds: 64 MiB, or what the device has.
  [[nodiscard]] Index lines_at_once(Index lines, Index length) const {
    constexpr Index most = Index{1} << 24;
    return std::clamp(std::min(most, work_.largest_buffer_slots()) / length, Index{1}, lines);
  }
  void find_patches(const MetalBinding& lhs, Index group, const Patches& part, const MetalBinding& out) {
    const Index batch = extent(0, 0), features = extent(0, 1), in = features / convolution_.feature_groups;
    const Index count = part.positions * part.taps;
    work_.run("conv_general_patches", {{"a", lhs}, {"geometry", geometry_}, {"out", out}},
              {{"batch", batch},
               {"features", features},
               {"first", group * in},
               {"first_position", part.first_position},
               {"first_tap", part.first_tap},
               {"group", in},
               {"modes", modes()},
               {"n", count},
               {"position_pitch", part.position_pitch},
               {"positions", part.positions},
               {"tap_pitch", part.tap_pitch},
               {"taps", part.taps}},
              count);
  }

  /// Patches times the kernels of each group.
  void sum_results() {
    const Index batch = extent(0, 0), outs = extent(1, 0);
    const Index groups = convolution_.feature_groups, group_outs = outs / groups;
    const Index positions = batch * positions_, taps = extent(0, 1) / groups * taps_;
    const MetalBinding lhs = elements(0, {0, 1}), kernel = elements(1, {0, 1});
    const Index most = lines_at_once(positions, taps);
    const MetalBinding patches = work_.temporary(most * taps);
    for (Index g = 0; g < groups; ++g)
      for (Index first = 0; first < positions; first += most) {
        const Index n = std::min(most, positions - first);
        find_patches(lhs, g, {first, n, 1, 0, taps, n}, patches);
        multiply(work_, "matmul_float", patches, slots_from(kernel, g * group_outs),
                 slots_from(work_.result(), g * group_outs * batch),
                 {n, group_outs, taps, n, outs, first, batch, batch, batch * outs});
      }
  }

  void sum_lhs_gradient() {
    const Index batch = extent(0, 0), outs = extent(0, 1), group = extent(1, 1);
    const Index groups = convolution_.feature_groups, n = call_.layout.size();
    work_.run("conv_general_lhs_gradient",
              {{"a", elements(0, {0, 1})},
               {"b", elements(1, {0, 1})},
               {"geometry", geometry_},
               {"out", work_.result()}},
              {{"batch", batch},
               {"features", group * groups},
               {"group", group},
               {"group_outs", outs / groups},
               {"modes", modes()},
               {"n", n},
               {"outs", outs},
               {"taps", taps_}},
              n);
  }

  /// The cotangent of each group times the patches that it came from.
  void sum_kernel_gradient() {
    const Index batch = extent(0, 0), outs = extent(1, 1);
    const Index groups = convolution_.feature_groups, group_outs = outs / groups;
    const Index positions = batch * positions_, taps = extent(0, 1) / groups * taps_;
    const MetalBinding lhs = elements(0, {0, 1}), cotangent = elements(1, {1, 0});
    const Index most = lines_at_once(taps, positions);
    const MetalBinding patches = work_.temporary(most * positions);
    for (Index g = 0; g < groups; ++g)
      for (Index first = 0; first < taps; first += most) {
        const Index m = std::min(most, taps - first);
        find_patches(lhs, g, {0, positions, m, first, m, 1}, patches);
        multiply(work_, "matmul_float", slots_from(cotangent, g * group_outs), patches,
                 slots_from(work_.result(), g * group_outs + first * outs),
                 {group_outs, m, positions, outs, m, 0, group_outs, outs, 0});
      }
  }

  const KernelCall& call_;
  const Convolution& convolution_;
  Work work_;
  Index positions_ = 1, taps_ = 1;  // spatial
  MetalBinding geometry_;
};

void convolve(const KernelCall& call) {
  const Convolution& convolution = *call.parameters.convolution;
  const std::vector<Window> windows =
      windows_of(convolution,
                 convolution.sum == ConvolutionSum::lhs_gradient ? window_of_lhs_gradient : window_over_lhs);
  if (std::ranges::all_of(windows, fits_int32))
    ConvolutionWork(call, windows).run();
  else
    reference_kernels().find("conv_general")(call);
}

/// Whether the result is written slot after slot, and everything lies in Metal buffers: pieces of an
/// operation on tiles may be windows of a result, or copies elsewhere.
bool is_on_device(const KernelCall& call) {
  const auto has_slots = [](const KernelOperand& operand) {
    return operand.layout == nullptr || is_in_metal_buffer(operand.data);
  };
  return call.layout == Layout::canonical(call.layout.shape()) && is_in_metal_buffer(call.result) &&
         std::ranges::all_of(call.operands, has_slots);
}

/// Arithmetic of gradients passes no gate; what has no kernel here runs on the processor, in the same memory.
template <KernelFunction kernel>
void run_or_refer(const KernelCall& call) {
  executes(call.plan) && is_on_device(call) ? kernel(call)
                                            : reference_kernels().find(call.plan.operation)(call);
}

}  // namespace

const KernelTable& metal_kernels() {
  static const std::vector<KernelEntry> elements = elementwise_entries(run_or_refer<elementwise>);
  static constexpr KernelEntry others[] = {
      {"reduce_sum", run_or_refer<reduce>},   {"reduce_prod", run_or_refer<reduce>},
      {"reduce_max", run_or_refer<reduce>},   {"reduce_min", run_or_refer<reduce>},
      {"argmax", run_or_refer<reduce>},       {"argmin", run_or_refer<reduce>},
      {"cumsum", run_or_refer<scan>},         {"_scan", run_or_refer<scan>},
      {"matmul", run_or_refer<matmul>},       {"conv_general", run_or_refer<convolve>},
      {"gather", run_or_refer<index>},        {"scatter", run_or_refer<index>},
      {"scatter_add", run_or_refer<index>},   {"_sort_values", run_or_refer<order>},
      {"_sort_indices", run_or_refer<order>}, {"_topk_values", run_or_refer<order>},
      {"_topk_indices", run_or_refer<order>}};
  static const KernelTable table{elements, others};
  return table;
}

std::shared_ptr<const CapabilitySet> metal_capabilities() {
  std::vector<CapabilitySet::Entry> entries;
  for (std::uint32_t number = 1; number <= builtin_plan_count(); ++number)
    if (const OperationPlan& plan = builtin_plan(number); executes(plan))
      entries.push_back(std::make_shared<const OperationCapability>(OperationCapability::from_plan(plan)));
  return CapabilitySet::make(std::move(entries));
}

}  // namespace orlop::inline v0
