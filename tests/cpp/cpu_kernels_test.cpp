// The CPU's own ways through memory: long, transposed, broadcast and shared among threads, beside the
// reference kernels and beside the same work on one thread.
#include "backends.hpp"

#include <algorithm>
#include <limits>
#include <memory>

#include "orlop/base/parallel.hpp"
#include "orlop/operation/functional.hpp"

namespace orlop {
namespace {

using namespace testing_support;
using testing::Each;

constexpr Index many = 4 * parallel_grain;  // elements: enough for several threads

/// Puts the number of threads back.
class CpuKernels : public testing::Test {
 protected:
  ~CpuKernels() override { set_thread_count(before_); }
  std::mt19937 random_{7};

 private:
  Index before_ = thread_count();
};

template <class T>
Tensor tensor_of(Backend backend, const std::vector<T>& slots, const Layout& layout) {
  Ref<Carrier> carrier = allocate(backend, static_cast<Index>(slots.size()), dtype_of<T>());
  carrier->write_span(0, carrier->size(), slots.data());
  return Tensor(std::move(carrier), 0, layout);
}

std::vector<float> random_floats(Index count, std::mt19937& random) {
  std::normal_distribution<float> values;
  std::vector<float> result(static_cast<std::size_t>(count));
  for (float& value : result) value = values(random);
  return result;
}

std::vector<float> slots_of(const Tensor& tensor) {
  std::vector<float> result(static_cast<std::size_t>(tensor.layout().cosize()));
  tensor.carrier()->read_span(tensor.offset(), tensor.layout().cosize(), result.data());
  return result;
}

std::vector<std::byte> slot_bytes_of(const Tensor& tensor) {
  const Index count = tensor.layout().cosize();
  std::vector<std::byte> result(static_cast<std::size_t>(count * tensor.dtype().slot_bytes()));
  tensor.carrier()->read_span(tensor.offset(), count, result.data());
  return result;
}

/// The operation on operands of these layouts over the same slots, on one backend.
Tensor run(std::string_view name, Backend backend, const std::vector<float>& slots,
           const std::vector<Layout>& layouts) {
  std::vector<Argument> arguments;
  for (const Layout& layout : layouts) arguments.emplace_back(tensor_of(backend, slots, layout));
  return apply_operation(name, arguments);
}

TEST_F(CpuKernels, ElementwiseAgreesWithTheReferenceInEveryOrderOfMemory) {
  const Shape shapes[] = {{70, 45},  {64, 256}, {100, 3, 20}, {33, 2, 35},
                          {16, 130}, {300, 17}, {40, 5, 4, 6}};
  for (const Shape& shape : shapes)
    for (int repeat = 0; repeat < 8; ++repeat) {
      const std::vector<Layout> layouts{
          random_aliased_layout(shape, random_),
          repeat % 2 == 0 ? random_layout(shape, random_) : Layout::canonical(shape)};
      const Index slots = std::max(layouts[0].cosize(), layouts[1].cosize());
      const std::vector<float> values = random_floats(slots, random_);
      set_thread_count(1 + repeat % 3);
      EXPECT_EQ(bits(slots_of(run("div", Backend::cpu, values, layouts))),
                bits(slots_of(run("div", Backend::reference, values, layouts))))
          << text(layouts[0], " and ", layouts[1]);
    }
}

TEST_F(CpuKernels, ElementwiseConvertsAndWidensInEveryOrderOfMemory) {
  const Shape shape{90, 70};
  const Layout layouts[] = {Layout::canonical(shape),      Layout(shape, Stride{70, 1}),
                            Layout(shape, Stride{0, 1}),   Layout(shape, Stride{1, 0}),
                            Layout(shape, Stride{2, 180}), Layout(shape, Stride{210, 3})};
  std::vector<std::int32_t> integers(90 * 210);
  std::generate(integers.begin(), integers.end(), [&] { return static_cast<std::int32_t>(random_()); });
  const std::vector<float> floats = random_floats(90 * 210, random_);
  for (const Layout& left : layouts)
    for (const Layout& right : layouts) {
      std::vector<std::vector<float>> results;
      for (const Backend backend : backends) {
        const Argument arguments[] = {tensor_of(backend, integers, left), tensor_of(backend, floats, right)};
        results.push_back(slots_of(apply_operation("mul", arguments)));
      }
      EXPECT_EQ(bits(results[0]), bits(results[1])) << text(left, " and ", right);
    }
}

TEST_F(CpuKernels, ResultsBeyondTheCachesAgreeWithTheReference) {
  set_thread_count(2);
  // 8 MiB and more: of whole cache lines, and not; 4 bytes for each element, and 1.
  for (const auto& [name, rows, columns] :
       {std::tuple{"add", 1040, 2064}, {"add", 1039, 2051}, {"lt", 2901, 2903}}) {
    const Shape shape{rows, columns};
    const std::vector<float> values = random_floats(shape.size(), random_);
    const Layout straight = Layout::canonical(shape);
    const Layout transposed(shape, Stride{columns, 1});
    for (const std::vector<Layout>& layouts : {std::vector{straight, straight},
                                               {transposed, straight},
                                               {transposed, transposed},
                                               {straight, Layout(shape, Stride{1, 0})},
                                               {transposed, Layout(shape, Stride{0, 1})}}) {
      const Tensor result = run(name, Backend::cpu, values, layouts);
      const Tensor expected = run(name, Backend::reference, values, layouts);
      EXPECT_TRUE(slot_bytes_of(result) == slot_bytes_of(expected))
          << text(name, " of ", layouts[0], " and ", layouts[1]);
    }
  }
}

TEST_F(CpuKernels, GatherBeyondTheCachesAgreesWithTheReference) {
  set_thread_count(2);
  for (const Index count : {70016, 70001})
    for (const Shape& shape : {Shape{500, 33}, Shape{20000, 6}}) {  // short columns, long ones
      std::vector<std::int32_t> numbers(static_cast<std::size_t>(count));
      std::generate(numbers.begin(), numbers.end(), [&] {
        return static_cast<std::int32_t>(random_() % static_cast<unsigned>(shape.leaves()[0]));
      });
      const std::vector<float> values = random_floats(shape.size(), random_);
      for (const Layout& layout : {Layout::canonical(shape), Layout(shape, Stride{shape.leaves()[1], 1})}) {
        std::vector<std::vector<float>> gathered;
        for (const Backend backend : backends) {
          const Argument looked_up[] = {tensor_of(backend, values, layout),
                                        tensor_of(backend, numbers, Layout::canonical(Shape{count})),
                                        Argument(Index{0})};
          gathered.push_back(slots_of(apply_operation("gather", looked_up)));
        }
        EXPECT_TRUE(bits(gathered[0]) == bits(gathered[1])) << text(layout, ", ", count, " indices");
      }
    }
}

TEST_F(CpuKernels, ElementwiseNamesTheElementThatLeavesInt32InEveryOrderOfMemory) {
  const Shape shape{64, 80};
  for (const Layout& layout : {Layout::canonical(shape), Layout(shape, Stride{80, 1})})
    for (const Index ordinal : {Index{0}, Index{63}, Index{64 * 17 + 5}, Index{64 * 80 - 1}}) {
      std::vector<std::int32_t> slots(64 * 80, 1);
      slots[static_cast<std::size_t>(layout(ordinal))] = std::numeric_limits<std::int32_t>::max();
      const Tensor x = tensor_of(Backend::cpu, slots, layout);
      const Tensor one = tensor_of(Backend::cpu, std::vector<std::int32_t>{1}, Layout(shape, Stride{0, 0}));
      for (const Tensor& other : {x, one}) {
        const Argument arguments[] = {x, other};
        expect_refusal<OverflowError>([&] { apply_operation("add", arguments); },
                                      "element " + std::to_string(ordinal) + ";");
      }
    }
}

TEST_F(CpuKernels, OperandsThatStandStillAgreeWithTheReference) {
  for (const auto& [rows, columns] : {std::pair<Index, Index>{3000, 2}, {90, 70}, {5, 4}})
    for (const Stride& stride : {Stride{0, 0}, Stride{0, 1}, Stride{1, 0}}) {
      const Shape shape{rows, columns};
      const std::vector<float> values = random_floats(shape.size(), random_);
      for (const Layout& first : {Layout::canonical(shape), Layout(shape, Stride{columns, 1})})
        for (const auto& [name, count] : {std::pair{"pow", 2}, {"lt", 2}, {"clamp", 3}}) {
          std::vector<Layout> layouts(static_cast<std::size_t>(count), Layout(shape, stride));
          layouts[0] = first;
          const Tensor result = run(name, Backend::cpu, values, layouts);
          const Tensor expected = run(name, Backend::reference, values, layouts);
          EXPECT_TRUE(slot_bytes_of(result) == slot_bytes_of(expected))
              << text(name, " of ", first, " and ", layouts[1]);
        }
    }
}

TEST_F(CpuKernels, RowsThatBeginBetweenCacheLinesAgreeWithTheReference) {
  for (const auto& [rows, columns] :
       {std::pair<Index, Index>{16, 64}, {17, 65}, {70, 112}, {130, 1040}, {33, 1100}})
    for (const Index offset : {0, 1, 4, 15}) {
      const Shape shape{rows, columns};
      const Layout in_rows(shape, Stride{columns + 16 - columns % 16, 1});
      std::vector<std::int32_t> slots(static_cast<std::size_t>(offset + in_rows.cosize()));
      std::generate(slots.begin(), slots.end(), [&] { return static_cast<std::int32_t>(random_() >> 2); });
      const std::vector<float> floats(slots.begin(), slots.end());
      for (const Stride& stride : {in_rows.stride(), Stride{0, 1}, Stride{1, 0}, Stride{0, 0}})
        for (const std::string_view name : {"sub", "maximum", "exp2"}) {
          std::vector<std::vector<std::byte>> results;
          for (const Backend backend : backends)
            for (const Tensor& all :
                 {tensor_of(backend, floats, in_rows), tensor_of(backend, slots, in_rows)}) {
              std::vector<Argument> arguments{Tensor(all.carrier(), offset, in_rows)};
              if (name != "exp2")
                arguments.emplace_back(Tensor(all.carrier(), offset, Layout(shape, stride)));
              if (name == "exp2" && all.dtype() != dtype_of<float>()) continue;
              results.push_back(slot_bytes_of(apply_operation(name, arguments)));
            }
          const std::size_t half = results.size() / 2;
          for (std::size_t i = 0; i < half; ++i)
            EXPECT_TRUE(results[i] == results[half + i])
                << text(name, " of ", in_rows, " from ", offset, " on and ", stride);
        }
    }
}

TEST_F(CpuKernels, ThinMatricesAndImagesAgreeWithTheReference) {
  std::vector<Layout> in_rows{Layout(Shape{3, 40, 50}, Stride{2000, 50, 1}),
                              Layout(Shape{400, 7, 5}, Stride{35, 5, 1}),
                              Layout(Shape{2, 3, 30, 30}, Stride{2700, 900, 30, 1}),
                              Layout(Shape{4, 40, 5, 9}, Stride{1800, 45, 9, 1})};
  for (const Index extent : {2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31}) {
    in_rows.emplace_back(Shape{extent, 5003}, Stride{5003, 1});
    in_rows.emplace_back(Shape{5003, extent}, Stride{extent, 1});
    in_rows.emplace_back(Shape{extent, 5003}, Stride{5007, 1});
    in_rows.emplace_back(Shape{5003, extent}, Stride{extent + 2, 1});
    in_rows.emplace_back(Shape{extent, 1501}, Stride{0, 1});
    in_rows.emplace_back(Shape{extent, 1501}, Stride{1, extent + 2});
    in_rows.emplace_back(Shape{extent, 7, 301}, Stride{2, 0, 3 * extent});
  }
  for (const Layout& rows : in_rows) {
    const Layout columns = Layout::canonical(rows.shape());
    const std::vector<float> values = random_floats(std::max(rows.cosize(), columns.cosize()), random_);
    for (const std::vector<Layout>& layouts :
         {std::vector{rows, rows}, std::vector{rows, columns}, std::vector{columns, rows}})
      for (const std::string_view name : {"sub", "lt"})
        EXPECT_TRUE(slot_bytes_of(run(name, Backend::cpu, values, layouts)) ==
                    slot_bytes_of(run(name, Backend::reference, values, layouts)))
            << text(name, " of ", layouts[0], " and ", layouts[1]);
  }
}

TEST_F(CpuKernels, LongRowsBesideWhatIsRepeatedAgreeWithTheReference) {
  const Shape shape{520, 4500};  // beyond the caches, so that the result is written past them
  const std::vector<float> values = random_floats(shape.size(), random_);
  const Layout rows(shape, Stride{4500, 1});
  for (const Stride& stride : {Stride{0, 0}, Stride{0, 1}, Stride{1, 0}, Stride{4500, 1}}) {
    const Layout other(shape, stride);
    for (const std::vector<Layout>& layouts :
         {std::vector{rows, other}, std::vector{other, rows}, std::vector{rows, other, rows}}) {
      const std::string_view name = layouts.size() == 2 ? "sub" : "clamp";
      const Tensor result = run(name, Backend::cpu, values, layouts);
      const Tensor expected = run(name, Backend::reference, values, layouts);
      EXPECT_TRUE(slot_bytes_of(result) == slot_bytes_of(expected))
          << text(name, " of ", layouts[0], " and ", layouts[1]);
    }
  }
}

TEST_F(CpuKernels, TheFirstOfSeveralElementsOutsideInt32IsNamedWhateverTheThreads) {
  std::vector<std::int32_t> slots(static_cast<std::size_t>(many), 1);
  for (const Index bad : {many / 3, many / 2, many - 1})
    slots[static_cast<std::size_t>(bad)] = std::numeric_limits<std::int32_t>::max();
  const Tensor x = tensor_of(Backend::cpu, slots, Layout::canonical(Shape{many}));
  const Argument arguments[] = {x, x};
  for (const Index threads : {1, 2, 5}) {
    set_thread_count(threads);
    expect_refusal<OverflowError>([&] { apply_operation("add", arguments); },
                                  "element " + std::to_string(many / 3) + ";");
  }
}

/// Slots among which each special value stands several times.
std::vector<float> special_floats(Index count, std::mt19937& random) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> values = random_floats(count, random);
  for (float& value : values) value = std::round(value * 2.0F);  // ties, and zeros of both signs
  const float specials[] = {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity};
  if (random() % 2 == 0)
    for (int i = 0; i < 3; ++i) values[random() % values.size()] = specials[random() % 3];
  return values;
}

TEST_F(CpuKernels, ExtremaAndTheirPositionsAgreeWithTheReferenceInEveryOrderOfMemory) {
  const Shape shapes[] = {{1, 5000}, {20, 300}, {300, 20}, {64, {9, 40}}, {{5, 30}, 70}, {3, {4, 5, 60}}};
  for (const Shape& shape : shapes)
    for (int repeat = 0; repeat < 8; ++repeat) {
      const std::vector<Layout> layouts{random_aliased_layout(shape, random_)};
      std::vector<float> values = special_floats(layouts[0].cosize(), random_);
      // A negative or positive half: the extremum is often a zero.
      if (repeat % 3 == 1)
        for (float& value : values) value = value > 0 ? -0.0F : value;
      for (const std::string_view name : {"reduce_max", "reduce_min"})
        EXPECT_EQ(bits(slots_of(run(name, Backend::cpu, values, layouts))),
                  bits(slots_of(run(name, Backend::reference, values, layouts))))
            << text(name, " of ", layouts[0]);
      for (const std::string_view name : {"argmax", "argmin"})
        EXPECT_EQ(elements<std::int32_t>(run(name, Backend::cpu, values, layouts)),
                  elements<std::int32_t>(run(name, Backend::reference, values, layouts)))
            << text(name, " of ", layouts[0]);
    }
}

/// Few fibres and many, along memory and across it, each with enough terms for several threads.
std::vector<Layout> large_reductions() {
  const Shape wide{2, many / 2};
  const Shape square{512, many / 512};
  const Shape tall{many / 4, 4};
  std::vector<Layout> layouts{Layout::canonical(Shape{1, many})};
  for (const Shape& shape : {wide, square, tall}) {
    layouts.push_back(Layout::canonical(shape));
    layouts.emplace_back(shape, Stride{shape.leaves()[1], 1});
  }
  return layouts;
}

TEST_F(CpuKernels, ReductionsComeToTheSameBitsOnAnyNumberOfThreads) {
  std::vector<float> values = random_floats(many, random_);
  values[static_cast<std::size_t>(many / 2 + 1)] = std::numeric_limits<float>::quiet_NaN();
  for (const Layout& layout : large_reductions())
    for (const std::string_view name : {"reduce_sum", "reduce_max", "reduce_min", "argmax", "argmin"}) {
      const Argument argument(tensor_of(Backend::cpu, values, layout));
      const auto result = [&](Index threads) {
        set_thread_count(threads);
        const Tensor reduced = apply_operation(name, {argument});
        std::vector<std::byte> slots(static_cast<std::size_t>(4 * reduced.layout().cosize()));
        reduced.carrier()->read_span(0, reduced.layout().cosize(), slots.data());
        return slots;
      };
      const auto alone = result(1);
      EXPECT_EQ(result(2), alone) << text(name, " of ", layout);
      EXPECT_EQ(result(7), alone) << text(name, " of ", layout);
    }
}

TEST_F(CpuKernels, LargeExtremaAndPositionsAgreeWithTheReference) {
  set_thread_count(3);
  std::vector<float> values = special_floats(many, random_);
  for (float& value : values) value = std::min(value, 3.0F);
  for (const Layout& layout : large_reductions()) {
    EXPECT_EQ(bits(slots_of(run("reduce_max", Backend::cpu, values, {layout}))),
              bits(slots_of(run("reduce_max", Backend::reference, values, {layout}))))
        << text(layout);
    EXPECT_EQ(elements<std::int32_t>(run("argmin", Backend::cpu, values, {layout})),
              elements<std::int32_t>(run("argmin", Backend::reference, values, {layout})))
        << text(layout);
  }
}

TEST_F(CpuKernels, SumsOfOnesAreExact) {
  set_thread_count(2);
  constexpr Index count = Index{1} << 25;
  const Tensor one = tensor_of(Backend::cpu, std::vector<float>{1.0F}, Layout(Shape{1}, Stride{1}));
  for (const auto& [shape, stride] :
       {std::pair{Shape{1, count}, Stride{0, 0}}, {Shape{64, count / 64}, Stride{0, 0}}}) {
    const Argument argument(Tensor(one.carrier(), 0, Layout(shape, stride)));
    const Tensor sum = apply_operation("reduce_sum", {argument});
    EXPECT_THAT(elements<float>(sum), Each(static_cast<float>(shape.leaves()[1])));
  }
}

TEST_F(CpuKernels, GatherAndScattersAgreeWithTheReferenceInEveryOrderOfMemory) {
  const Shape tables[] = {{400}, {400, 5}, {5, 400}, {400, 16}, {400, 70}, {3, 400, 7}, {{20, 20}, 6}};
  for (const Shape& shape : tables)
    for (int repeat = 0; repeat < 4; ++repeat) {
      set_thread_count(1 + repeat % 2);
      const Index axis = shape.leaves()[0] >= 20 ? 0 : 1;
      const Index count = repeat % 2 == 0 ? 1500 : 3;
      std::vector<std::int32_t> numbers(static_cast<std::size_t>(count));
      std::generate(numbers.begin(), numbers.end(),
                    [&] { return static_cast<std::int32_t>(random_() % 400); });
      const Layout layout = repeat == 2 ? Layout::canonical(shape) : random_layout(shape, random_);
      const std::vector<float> values = random_floats(layout.cosize(), random_);
      std::vector<std::vector<float>> gathered, added;
      for (const Backend backend : backends) {
        const Tensor table = tensor_of(backend, values, layout);
        const Tensor indices = tensor_of(backend, numbers, Layout::canonical(Shape{count}));
        const Argument looked_up[] = {table, indices, Argument(axis)};
        const Tensor items = apply_operation("gather", looked_up);
        gathered.push_back(slots_of(items));
        const Argument updated[] = {table, indices, items, Argument(axis)};
        added.push_back(slots_of(apply_operation("scatter_add", updated)));
      }
      EXPECT_EQ(bits(gathered[0]), bits(gathered[1])) << text(layout, ", ", count, " indices");
      EXPECT_EQ(bits(added[0]), bits(added[1])) << text(layout, ", ", count, " indices");
    }
}

TEST_F(CpuKernels, ScatterAgreesWithTheReferenceInEveryOrderOfMemory) {
  const Shape tables[] = {{4000}, {4000, 3}, {3, 4000}, {2, 4000, 2}};
  for (const Shape& shape : tables) {
    const Index axis = shape.leaves()[0] == 4000 ? 0 : 1;
    std::vector<std::int32_t> numbers(4000);
    std::iota(numbers.begin(), numbers.end(), 0);
    std::shuffle(numbers.begin(), numbers.end(), random_);
    numbers.resize(2500);
    const Layout layout = random_layout(shape, random_);
    const std::vector<float> values = random_floats(layout.cosize(), random_);
    std::vector<std::vector<float>> results;
    for (const Backend backend : backends) {
      const Tensor table = tensor_of(backend, values, layout);
      const Tensor indices = tensor_of(backend, numbers, Layout::canonical(Shape{2500}));
      const Argument looked_up[] = {table, indices, Argument(axis)};
      const Argument negated(apply_operation("gather", looked_up));
      const Argument updated[] = {table, indices, apply_operation("neg", {negated}), Argument(axis)};
      results.push_back(slots_of(apply_operation("scatter", updated)));
    }
    EXPECT_EQ(bits(results[0]), bits(results[1])) << text(layout);
  }
}

TEST_F(CpuKernels, LargeMemoryIsZeroAgainAndAligned) {
  for (const Index bytes : {Index{1} << 20, Index{5} << 20, Index{5} << 20, Index{60} << 20}) {
    for (int repeat = 0; repeat < 3; ++repeat) {
      const Ref<CPU> carrier = CPU::make(bytes / 4, {.dtype = dtypes::Float32});
      std::byte* const data = carrier->host_data();
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % 64, 0U);
      EXPECT_TRUE(std::all_of(data, data + bytes, [](std::byte byte) { return byte == std::byte{0}; }));
      std::fill(data, data + bytes, std::byte{0xff});
    }
  }
}

}  // namespace
}  // namespace orlop
