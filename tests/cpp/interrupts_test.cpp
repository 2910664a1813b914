// Interrupted users end long calls, but none that writes where others read.
#include "interrupts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "orlop/carriers/cpu/cpu.hpp"
#include "orlop/carriers/generic/generic.hpp"
#include "orlop/interop/friendly.hpp"
#include "orlop/movement/move.hpp"
#include "orlop/operation/autograd.hpp"
#include "orlop/operation/functional.hpp"
#include "orlop/operation/views.hpp"

namespace orlop {
namespace {

using namespace testing_support;

constexpr Index many = Index{1} << 23;

enum class Backend { cpu, generic };

Tensor zeros(Backend backend, const Shape& shape, const DType& dtype = dtypes::Float32) {
  const Layout layout = Layout::canonical(shape);
  const Ref<Carrier> carrier = backend == Backend::cpu
                                   ? Ref<Carrier>(CPU::make(layout.size(), {.dtype = dtype}))
                                   : Ref<Carrier>(Generic::zeros(layout.size(), {.dtype = dtype}));
  return Tensor(carrier, 0, layout);
}

using Call = std::function<Tensor()>;
using Calls = std::vector<std::pair<std::string, Call>>;

Calls calls_of(Backend backend, Index size) {
  const Tensor line = zeros(backend, Shape{size});
  const Tensor integers = zeros(backend, Shape{size}, dtypes::Int32);
  const Tensor rows = zeros(backend, Shape{1024, size / 1024});
  const Tensor columns = permute(rows, {1, 0});
  const Tensor table = zeros(backend, Shape{16, 4});
  return {
      {"elementwise", [=] { return add(line, line); }},
      {"elementwise of integers", [=] { return add(integers, line); }},
      {"elementwise of columns", [=] { return abs(columns); }},
      {"sum", [=] { return reduce_sum(line, "i -> 1"); }},
      {"sum of integers", [=] { return reduce_sum(integers, "i -> 1"); }},
      {"sums of columns", [=] { return reduce_sum(rows, "i j -> j"); }},
      {"sums of rows", [=] { return reduce_sum(rows, "i j -> i"); }},
      {"maximum", [=] { return reduce_max(line, "i -> 1"); }},
      {"position", [=] { return argmax(line, "i -> 1"); }},
      {"product", [=] { return reduce_prod(line, "i -> 1"); }},
      {"products of rows", [=] { return reduce_prod(rows, "i j -> i"); }},
      {"scan", [=] { return cumsum(line, 0); }},
      {"scan of integers", [=] { return cumsum(integers, 0); }},
      {"scan of rows", [=] { return cumsum(rows, 1); }},
      {"scan of columns", [=] { return cumsum(rows, 0); }},
      {"order of columns", [=] { return sort(rows, 0).values; }},
      {"gather", [=] { return gather(table, integers, 0); }},
      {"scatter_add", [=] { return scatter_add(zeros(backend, Shape{16}), integers, line, 0); }},
      {"scatter_add of integers",
       [=] { return scatter_add(zeros(backend, Shape{16}, dtypes::Int32), integers, integers, 0); }},
  };
}

TEST(LongCalls, CanBeInterrupted) {
  for (const Backend backend : {Backend::cpu, Backend::generic})
    for (const auto& [name, call] : calls_of(backend, many))
      EXPECT_EQ(checks_until_interrupted(call), 1)
          << name << " on " << (backend == Backend::cpu ? "CPU" : "Generic");
}

TEST(LongCalls, OfOneFibreCanBeInterrupted) {
  const Tensor line = zeros(Backend::cpu, Shape{many});
  EXPECT_EQ(checks_until_interrupted([&] { return sort(line, 0).values; }), 1);
  EXPECT_EQ(checks_until_interrupted([&] { return topk(line, 3, 0).values; }), 1);
  const Tensor square = zeros(Backend::generic, Shape{400, 400});
  EXPECT_EQ(checks_until_interrupted([&] { return matmul(square, square); }), 1);
}

TEST(LongCalls, CanBeInterruptedWithSeveralThreads) {
  for (const auto& [name, call] : calls_of(Backend::cpu, 2 * many))
    EXPECT_EQ(checks_until_interrupted([&call = call] {
                set_thread_count(2);
                return call();
              }),
              1)
        << name;
}

TEST(LongCalls, CopiesIntoFreshMemoryCanBeInterrupted) {
  const Tensor rows = zeros(Backend::cpu, Shape{1024, many / 1024});
  const Tensor cotangent = zeros(Backend::cpu, Shape{1024});
  const Tensor sums = reduce_sum(rows, "i j -> i");
  EXPECT_EQ(checks_until_interrupted([&] { return grad(sums, {rows}, cotangent); }), 1);
}

TEST(ShortCalls, AskForNoInterrupt) {
  for (const Backend backend : {Backend::cpu, Backend::generic})
    for (const auto& [name, call] : calls_of(backend, Index{1} << 18)) EXPECT_EQ(checks_of(call), 0) << name;
}

TEST(LongCalls, ThatWriteWhereOthersReadAreNotInterrupted) {
  const Tensor line = zeros(Backend::cpu, Shape{many});
  const Tensor target = zeros(Backend::cpu, Shape{many});
  EXPECT_EQ(checks_of([&] { return move(zeros(Backend::cpu, Shape{many}), target.carrier()); }), 0);
  EXPECT_EQ(checks_of([&] {
              target.carrier()->scatter(line, target, line.layout());
              return 0;
            }),
            0);
}

TEST(LongCalls, WhatAHandlerWritesIsNotInterrupted) {
  static const Tensor line = zeros(Backend::cpu, Shape{many});
  static const Tensor target = zeros(Backend::cpu, Shape{many});
  static int checks;
  checks = 0;
  const Interrupts interrupts;
  detail::install_blocking_hooks({nullptr, nullptr, [] {
                                    if (++checks == 1) target.carrier()->scatter(line, target, line.layout());
                                  }});
  static_cast<void>(abs(line));
  EXPECT_EQ(checks, 1);
}

}  // namespace
}  // namespace orlop
