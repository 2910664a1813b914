// The elementwise operations, compiled for one instruction set: the body of elementwise_functions.cpp and of
// the units named after it. A new operation is one line of the table at the end.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "operation/elementwise_function.hpp"
#include "operation/instruction_set.hpp"
#include "operation/lanes.hpp"
#include "operation/scalar_functions.hpp"

namespace orlop::inline v0::ORLOP_INSTRUCTION_SET {

/// How a slot holds a value: a bool in a byte, of which every value but 0 is true; an exact integer in 32
/// bits.
template <class T>
struct SlotOf {
  using Type = T;
};
template <>
struct SlotOf<bool> {
  using Type = std::uint8_t;
};
template <>
struct SlotOf<std::int64_t> {
  using Type = std::int32_t;
};
template <class T>
using Slot = SlotOf<T>::Type;

template <class T>
constexpr StorageType storage_type = StorageType::float32;
template <>
inline constexpr StorageType storage_type<std::int32_t> = StorageType::int32;
template <>
inline constexpr StorageType storage_type<bool> = StorageType::bool8;

/// A function of one float that can take a register of them.
template <class Function>
concept TakesRegisters = has_registers && requires(Function function, Floats x) {
  { function(x) } -> std::same_as<Floats>;
};

/// `Function` over consecutive elements of the types `T`.
template <class Function, class... T>
class Block {
 public:
  /// Operands after the first that stand still are held in registers, with all that follows from them alone.
  static ElementFault run(Index count, std::byte* result, const std::byte* const* operands,
                          bool stand_still) {
    if constexpr (sizeof...(T) > 1)
      if (stand_still) return run<0>(count, result, operands, std::index_sequence_for<T...>{});
    return run<1>(count, result, operands, std::index_sequence_for<T...>{});
  }

  static constexpr bool has_squares =
      sizeof(Slot<decltype(Function{}(T{}...))>) == 4 && ((sizeof(Slot<T>) == 4) && ...);

  static ElementFault square(std::byte* result, const std::byte* const* operands, const Index* strides) {
    return square(reinterpret_cast<Slot<Value>*>(result), operands, strides, std::index_sequence_for<T...>{});
  }

 private:
  using Value = decltype(Function{}(T{}...));
  static constexpr bool is_exact = sizeof(Value) > sizeof(Slot<Value>);
  static constexpr bool is_completed = scalar_functions::Completed<Function, T...>;
  static constexpr Index pair = Index{2} * lane_count;

  template <Index rest_step, std::size_t... i>
  static ElementFault run(Index count, std::byte* result, const std::byte* const* operands,
                          std::index_sequence<i...>) {
    return loop<(i == 0 ? 1 : rest_step)...>(count, reinterpret_cast<Slot<Value>*>(result),
                                             reinterpret_cast<const Slot<T>*>(operands[i])...);
  }

  template <Index... step>
  static ElementFault loop(Index count, Slot<Value>* __restrict result,
                           const Slot<T>* __restrict... operands) {
    if constexpr (TakesRegisters<Function> && sizeof...(T) == 1) {
      registers(count, result, operands...);
      return ElementFault::none;
    }
    std::uint64_t outside = 0;   // the upper half collects whatever does not fit 32 bits
    std::uint32_t has_gaps = 0;  // NaN stands where the quick way does not reach
    for (Index i = 0; i < count; ++i) {
      const Value value = Function{}(static_cast<T>(operands[i * step])...);
      if constexpr (is_exact) outside |= static_cast<std::uint64_t>(value + (Value{1} << 31));
      if constexpr (is_completed) has_gaps |= static_cast<std::uint32_t>(value != value);
      result[i] = static_cast<Slot<Value>>(value);
    }
    if constexpr (is_completed)
      if (has_gaps != 0) complete<step...>(count, result, operands...);
    if constexpr (is_exact)
      if (outside >> 32 != 0) return scalar_functions::fault_of<Function>;
    return ElementFault::none;
  }

  template <std::size_t... i>
  [[gnu::flatten]] static ElementFault square(Slot<Value>* __restrict result,
                                              const std::byte* const* operands, const Index* strides,
                                              std::index_sequence<i...>) {
    if constexpr (TakesRegisters<Function> && sizeof...(T) == 1) {
      const auto slot = [=](Index place) {
        return reinterpret_cast<const float*>(operands[0] + place / square_side * strides[0]) +
               place % square_side;
      };
      for (Index place = 0; place < square_side * square_side; place += pair)
        two_registers(slot(place), slot(place + lane_count), result + place, result + place + lane_count);
      return ElementFault::none;
    }
    ElementFault fault = ElementFault::none;
    for (Index row = 0; row < square_side; ++row, result += square_side) {
      const ElementFault found = loop<(i < sizeof...(T) ? 1 : 0)...>(
          square_side, result, reinterpret_cast<const Slot<T>*>(operands[i] + row * strides[i])...);
      if (found != ElementFault::none) fault = found;
    }
    return fault;
  }

  template <Index... step>
  static void complete(Index count, Slot<Value>* __restrict result, const Slot<T>* __restrict... operands) {
    for (Index i = 0; i < count; ++i)
      if (result[i] != result[i]) result[i] = Function::complete(static_cast<T>(operands[i * step])...);
  }

  /// Two registers, whose operations the compiler mixes: each waits for the one before it.
  static void two_registers(const float* first, const float* second, float* first_result,
                            float* second_result) {
    Floats x;
    Floats y;
    __builtin_memcpy(&x, first, sizeof x);
    __builtin_memcpy(&y, second, sizeof y);
    x = Function{}(x);
    y = Function{}(y);
    __builtin_memcpy(first_result, &x, sizeof x);
    __builtin_memcpy(second_result, &y, sizeof y);
  }

  [[gnu::flatten]] static void registers(Index count, float* __restrict result,
                                         const float* __restrict operand) {
    Floats x;
    Index i = 0;
    for (; i + pair <= count; i += pair)
      two_registers(operand + i, operand + i + lane_count, result + i, result + i + lane_count);
    if (i + lane_count <= count) {
      __builtin_memcpy(&x, operand + i, sizeof x);
      x = one_register(x);
      __builtin_memcpy(result + i, &x, sizeof x);
      i += lane_count;
    }
    if (i == count) return;
    const auto bytes = static_cast<std::size_t>(count - i) * sizeof(float);
    x = Floats{};
    __builtin_memcpy(&x, operand + i, bytes);
    x = one_register(x);
    __builtin_memcpy(result + i, &x, bytes);
  }
  [[gnu::noinline]] static Floats one_register(Floats x) { return Function{}(x); }
};

/// The types that a function's operands are computed in.
template <class... T>
struct Operands {
  template <class Function>
  static consteval ElementwiseFunction::Overload overload() {
    constexpr StorageType types[] = {storage_type<T>...};
    using Functions = Block<Function, T...>;
    if constexpr (Functions::has_squares)
      return {types[sizeof...(T) - 1], &Functions::run, &Functions::square};
    else
      return {types[sizeof...(T) - 1], &Functions::run, nullptr};
  }
};

template <class Function, class... Signatures>
consteval ElementwiseFunction function(std::string_view name) {
  return {name, {Signatures::template overload<Function>()...}};
}

using F = Operands<float>;
using I = Operands<std::int32_t>;
using FF = Operands<float, float>;
using II = Operands<std::int32_t, std::int32_t>;
using BB = Operands<bool, bool>;
using BFF = Operands<bool, float, float>;
using BII = Operands<bool, std::int32_t, std::int32_t>;
using BBB = Operands<bool, bool, bool>;
using B = Operands<bool>;
using FFF = Operands<float, float, float>;
using III = Operands<std::int32_t, std::int32_t, std::int32_t>;

constexpr ElementwiseFunction table[] = {
    function<scalar_functions::Add, FF, II>("add"),
    function<scalar_functions::Sub, FF, II>("sub"),
    function<scalar_functions::Mul, FF, II>("mul"),
    function<scalar_functions::Mul, FF, II>("elementwise_mul"),
    function<scalar_functions::Div, FF>("div"),
    function<scalar_functions::Pow, FF, II>("pow"),
    function<scalar_functions::Maximum, FF, II>("maximum"),
    function<scalar_functions::Minimum, FF, II>("minimum"),
    function<scalar_functions::Rem, FF, II>("rem"),
    function<scalar_functions::RemQuotient, FF>("_rem_quotient"),
    function<scalar_functions::Neg, F, I>("neg"),
    function<scalar_functions::Abs, F, I>("abs"),
    function<scalar_functions::Sign, F, I>("sign"),
    function<scalar_functions::Recip, F>("recip"),
    function<scalar_functions::Sqrt, F>("sqrt"),
    function<scalar_functions::Rsqrt, F>("rsqrt"),
    function<scalar_functions::Exp, F>("exp"),
    function<scalar_functions::Exp2, F>("exp2"),
    function<scalar_functions::Log, F>("log"),
    function<scalar_functions::Log2, F>("log2"),
    function<scalar_functions::Sin, F>("sin"),
    function<scalar_functions::Cos, F>("cos"),
    function<scalar_functions::Erf, F>("erf"),
    function<scalar_functions::Floor, F>("floor"),
    function<scalar_functions::Ceil, F>("ceil"),
    function<scalar_functions::Round, F>("round"),
    function<scalar_functions::LogicalNot, F, I, B>("logical_not"),
    function<scalar_functions::Relu, F, I>("relu"),
    function<scalar_functions::Sigmoid, F>("sigmoid"),
    function<scalar_functions::Tanh, F>("tanh"),
    function<scalar_functions::Gelu, F>("gelu"),
    function<scalar_functions::Silu, F>("silu"),
    function<scalar_functions::Softplus, F>("softplus"),
    function<scalar_functions::Elu, F>("elu"),
    function<scalar_functions::LeakyRelu, F>("leaky_relu"),
    function<scalar_functions::Eq, FF, II, BB>("eq"),
    function<scalar_functions::Ne, FF, II, BB>("ne"),
    function<scalar_functions::Lt, FF, II>("lt"),
    function<scalar_functions::Le, FF, II>("le"),
    function<scalar_functions::Select, BFF, BII, BBB>("select"),
    function<scalar_functions::Clamp, FFF, III>("clamp"),
};

/// The table of this unit; as long as every other one. One source file of the unit includes this header.
const ElementwiseFunction* elementwise_table() { return table; }  // NOLINT(misc-definitions-in-headers)

}  // namespace orlop::inline v0::ORLOP_INSTRUCTION_SET
