// The elementwise kernels of any host backend: which functions there are and how a call picks one. A backend
// adds its loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>
#include <type_traits>

#include "operation/scalar_functions.hpp"
#include "orlop/operation/kernels.hpp"

namespace orlop::inline v0 {

/// The slot in which an element of type `T` is stored: std::uint8_t for bool, where every value but 0 is
/// true.
template <class T>
using Slot = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;

template <class T>
constexpr StorageType storage_type_of = std::is_same_v<T, float>          ? StorageType::float32
                                        : std::is_same_v<T, std::int32_t> ? StorageType::int32
                                                                          : StorageType::bool8;

/// The element in `slot`; Int32 to float rounds to nearest even.
template <class T, class Stored>
T element(Stored slot) {
  if constexpr (std::is_same_v<T, bool>)
    return slot != 0;
  else
    return static_cast<T>(slot);
}

/// The element of `operand` in slot `index`, converted to the type it is computed in.
template <class T>
T load_element(const KernelOperand& operand, Index index) {
  if constexpr (std::is_same_v<T, float>)
    if (operand.stored == StorageType::int32)
      return element<T>(reinterpret_cast<const std::int32_t*>(operand.data)[index]);
  return element<T>(reinterpret_cast<const Slot<T>*>(operand.data)[index]);
}

/// Whether `value` can be stored: only an exact integer may be out of range.
template <class Value>
constexpr bool fits_slot(Value value) {
  if constexpr (std::is_same_v<Value, std::int64_t>)
    return value == static_cast<std::int32_t>(value);
  else
    return true;
}

/// What a result of type `Value` is stored as.
template <class Value>
using ResultSlot = Slot<std::conditional_t<std::is_same_v<Value, std::int64_t>, std::int32_t, Value>>;

/// OverflowError for the element at `ordinal` of the result.
[[noreturn]] void raise_int32_overflow(const KernelCall& call, Index ordinal);

/// The types that a function's operands are computed in.
template <class... T>
struct Operands {
  template <class Function>
  using Result = std::invoke_result_t<Function, T...>;
  static constexpr StorageType last =
      storage_type_of<std::tuple_element_t<sizeof...(T) - 1, std::tuple<T...>>>;
};

/// The kernel of `Function`: `Loop::run<Function>(call, operands)` for the one of `Signatures` that the plan
/// asks for. The last operand's type tells them apart.
template <class Loop, class Function, class... Signatures>
void elementwise_kernel(const KernelCall& call) {
  const auto try_run = [&](auto operands) {
    if (call.operands.back().computed != operands.last) return false;
    Loop::template run<Function>(call, operands);
    return true;
  };
  (void)(try_run(Signatures{}) || ...);
}

/// Every elementwise operation, in the loop of one backend.
template <class Loop>
KernelList elementwise_kernels() {
  using F = Operands<float>;
  using I = Operands<std::int32_t>;
  using FF = Operands<float, float>;
  using II = Operands<std::int32_t, std::int32_t>;
  using BB = Operands<bool, bool>;
  using BFF = Operands<bool, float, float>;
  using BII = Operands<bool, std::int32_t, std::int32_t>;
  using BBB = Operands<bool, bool, bool>;
  using namespace scalar_functions;
  static constexpr KernelEntry list[] = {
      {"add", elementwise_kernel<Loop, Add, FF, II>},
      {"sub", elementwise_kernel<Loop, Sub, FF, II>},
      {"mul", elementwise_kernel<Loop, Mul, FF, II>},
      {"elementwise_mul", elementwise_kernel<Loop, Mul, FF, II>},
      {"div", elementwise_kernel<Loop, Div, FF>},
      {"pow", elementwise_kernel<Loop, Pow, FF, II>},
      {"maximum", elementwise_kernel<Loop, Maximum, FF, II>},
      {"neg", elementwise_kernel<Loop, Neg, F, I>},
      {"exp", elementwise_kernel<Loop, Exp, F>},
      {"log", elementwise_kernel<Loop, Log, F>},
      {"relu", elementwise_kernel<Loop, Relu, F, I>},
      {"sigmoid", elementwise_kernel<Loop, Sigmoid, F>},
      {"tanh", elementwise_kernel<Loop, Tanh, F>},
      {"eq", elementwise_kernel<Loop, Eq, FF, II, BB>},
      {"ne", elementwise_kernel<Loop, Ne, FF, II, BB>},
      {"lt", elementwise_kernel<Loop, Lt, FF, II>},
      {"le", elementwise_kernel<Loop, Le, FF, II>},
      {"select", elementwise_kernel<Loop, Select, BFF, BII, BBB>},
  };
  return list;
}

}  // namespace orlop::inline v0
