// Profiler sessions, averages and tables (P95–P100).
#include "orlop/operation/profiler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "orlop/carriers/cpu/cpu.hpp"
#include "orlop/carriers/evictable/evictable.hpp"
#include "orlop/interop/chrome_trace.hpp"
#include "orlop/operation/functional.hpp"
#include "orlop/operation/operation.hpp"

namespace orlop {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class Work : public Object {};

CarrierClass ram_class() {
  static const CarrierClass made = detail::python_carrier_class(nullptr, "Ram", false);
  return made;
}
CarrierClass disk_class() {
  static const CarrierClass made = detail::python_carrier_class(nullptr, "Disk", false);
  return made;
}

template <class Body>
void call(const std::string& name, CarrierClass carrier_class, const Body& body, bool succeeds = true) {
  const Work work;
  detail::ProfiledSpan span(
      !name.empty(),
      [&] { return detail::ProfiledCall{name, carrier_class, ImplementationType(work, "Work")}; },
      [] { return InputShapes{Shape{{2, 5}, 3}, std::nullopt}; });
  body();
  if (succeeds) span.succeed();
}
void call(const std::string& name, CarrierClass carrier_class = ram_class()) {
  call(name, carrier_class, [] {});
}

TEST(Profiler, RecordsNestedCallsInStartOrder) {
  Profiler profiler;
  profiler.enter();
  call("relu", disk_class(), [] {
    call("relu");
    call("add");
  });
  call("neg", ram_class(), [] {}, false);
  profiler.exit();
  call("late");
  const std::vector<ProfilerEvent>& events = profiler.events();
  ASSERT_EQ(events.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(events[i].id, static_cast<std::int64_t>(i));
  EXPECT_EQ(events[0].parent_id, std::nullopt);
  EXPECT_EQ(events[1].parent_id, 0);
  EXPECT_EQ(events[2].parent_id, 0);
  EXPECT_EQ(events[3].parent_id, std::nullopt);
  EXPECT_EQ(events[0].carrier_type, disk_class());
  EXPECT_EQ(events[0].implementation_type.name(), "Work");
  EXPECT_EQ(events[0].implementation_type.native_type(), typeid(Work));
  EXPECT_EQ(events[0].self_time_ns, events[0].duration_ns - events[1].duration_ns - events[2].duration_ns);
  EXPECT_EQ(events[1].self_time_ns, events[1].duration_ns);
  EXPECT_LE(events[0].start_time_ns, events[1].start_time_ns);
  EXPECT_TRUE(events[0].succeeded);
  EXPECT_FALSE(events[3].succeeded);
  EXPECT_EQ(events[0].input_shapes, std::nullopt);
}

TEST(Profiler, SelectsExactClasses) {
  Profiler profiler({.carriers = std::vector{ram_class()}});
  Profiler nothing({.carriers = std::vector<CarrierClass>{}});
  const auto record = [](Profiler& each) {
    const auto scope = each.scope();
    call("relu", ram_class(), [] { call("relu", disk_class(), [] { call("neg"); }); });
  };
  record(profiler);
  record(nothing);
  EXPECT_TRUE(nothing.events().empty());
  ASSERT_EQ(profiler.events().size(), 2U);
  EXPECT_EQ(profiler.events()[1].parent_id, 0);
  // The child that was not selected still takes its time from the parent.
  EXPECT_LT(profiler.events()[0].self_time_ns, profiler.events()[0].duration_ns);
}

TEST(Profiler, IsUsedOnceAndAloneOnItsThread) {
  Profiler first;
  Profiler second;
  EXPECT_THROW(first.exit(), RuntimeError);
  EXPECT_THROW((void)first.events(), RuntimeError);
  first.enter();
  EXPECT_THROW(first.enter(), RuntimeError);
  EXPECT_THROW(second.enter(), RuntimeError);
  EXPECT_THROW((void)first.events(), RuntimeError);
  first.exit();
  EXPECT_THROW(first.exit(), RuntimeError);
  EXPECT_THROW(first.enter(), RuntimeError);
  EXPECT_THROW(second.enter(), RuntimeError) << "a failed attempt is one too";
}

TEST(Profiler, IsAbandonedByAForeignExit) {
  Profiler abandoned;
  abandoned.enter();
  call("relu");
  std::thread([&] { EXPECT_THROW(abandoned.exit(), RuntimeError); }).join();
  call("relu");
  EXPECT_THROW((void)abandoned.events(), RuntimeError);
  EXPECT_THROW(abandoned.exit(), RuntimeError);
  Profiler next;
  {
    const auto scope = next.scope();
    call("neg");
  }
  EXPECT_EQ(next.events().size(), 1U);
}

TEST(Profiler, SeesOnlyItsOwnThread) {
  Profiler profiler;
  {
    const auto scope = profiler.scope();
    std::thread([] { call("relu"); }).join();
  }
  EXPECT_TRUE(profiler.events().empty());
}

TEST(Profiler, FreesTheThreadWhenDropped) {
  {
    Profiler dropped;
    dropped.enter();
  }
  call("relu");
  Profiler next;
  next.enter();
  next.exit();
}

TEST(Profiler, ClosesTheCallsThatExitInterrupts) {
  Profiler profiler;
  profiler.enter();
  call("relu", ram_class(), [&] { profiler.exit(); });
  ASSERT_EQ(profiler.events().size(), 1U);
  EXPECT_FALSE(profiler.events()[0].succeeded);
}

TEST(Profiler, AveragesByNameClassAndShapes) {
  Profiler profiler({.record_shapes = true});
  {
    const auto scope = profiler.scope();
    call("relu");
    call("relu", disk_class());
    call("relu");
    call("add");
  }
  const std::vector<ProfilerAggregate> averages = profiler.key_averages();
  ASSERT_EQ(averages.size(), 3U);
  EXPECT_EQ(averages[0].name, "add");
  EXPECT_EQ(averages[1].carrier_type, disk_class());
  EXPECT_EQ(averages[2].count, 2);
  EXPECT_EQ(averages[2].input_shapes, std::nullopt);
  EXPECT_EQ(averages[2].total_time_ns, profiler.events()[0].duration_ns + profiler.events()[2].duration_ns);
  EXPECT_EQ(averages[2].mean_time_ns, static_cast<double>(averages[2].total_time_ns) / 2);
  EXPECT_LE(averages[2].min_time_ns, averages[2].max_time_ns);
  EXPECT_EQ(profiler.key_averages({.group_by_input_shape = true})[0].input_shapes,
            (InputShapes{Shape{{2, 5}, 3}, std::nullopt}));
}

TEST(Profiler, PrintsAnAlignedTable) {
  Profiler empty;
  {
    const auto scope = empty.scope();
  }
  const std::string lines = empty.table();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 1);
  EXPECT_THAT(
      lines,
      StartsWith("Name  Carrier  Calls  Total (ns)  Self total (ns)  Mean (ns)  Min (ns)  Max (ns)\n----  "));

  Profiler profiler({.record_shapes = true});
  {
    const auto scope = profiler.scope();
    call("relu");
    call("add");
    call("add");
    call("neg");
  }
  const auto names = [&](const ProfilerTableOptions& options) {
    std::vector<std::string> found;
    const std::string table = profiler.table(options);
    std::size_t start = table.find('\n', table.find('\n') + 1);
    while (start != std::string::npos) {
      found.push_back(table.substr(start + 1, table.find(' ', start + 1) - start - 1));
      start = table.find('\n', start + 1);
    }
    return found;
  };
  EXPECT_THAT(names({.sort_by = "count"}), ElementsAre("add", "neg", "relu"));
  EXPECT_THAT(names({.sort_by = "count", .descending = false}), ElementsAre("neg", "relu", "add"));
  EXPECT_THAT(names({.sort_by = "name", .row_limit = 2}), ElementsAre("relu", "neg"));
  EXPECT_THAT(names({.sort_by = "carrier_type"}), ElementsAre("add", "neg", "relu"));
  EXPECT_THAT(names({.row_limit = 0}), ElementsAre());
  EXPECT_THAT(profiler.table({.group_by_input_shape = true}),
              AllOf(HasSubstr("Input shapes"), HasSubstr("(((2, 5), 3), None)")));
  EXPECT_EQ(profiler.table(), profiler.table());
  EXPECT_THROW((void)profiler.table({.sort_by = "speed"}), ValueError);
  EXPECT_THROW((void)profiler.table({.row_limit = -1}), ValueError);
  EXPECT_THROW((void)Profiler().table({.sort_by = "speed"}), ValueError) << "arguments come first";
  EXPECT_THROW((void)Profiler().table(), RuntimeError);
}

Tensor on(Ref<Carrier> carrier, const Shape& shape) {
  return {std::move(carrier), 0, Layout::canonical(shape)};
}

TEST(Profiler, SeesAHierarchyAndItsPrimary) {
  const Tensor x = on(Evictable::make(CPU::make(3), CPU::make(3)), Shape{3});
  const auto record = [&](ProfilerOptions options) {
    auto profiler = std::make_unique<Profiler>(std::move(options));
    const auto scope = profiler->scope();
    (void)relu(x);
    return profiler;
  };
  const auto all = record({});
  ASSERT_EQ(all->events().size(), 2U);
  const ProfilerEvent& outer = all->events()[0];
  const ProfilerEvent& inner = all->events()[1];
  EXPECT_EQ(outer.carrier_type, carrier_class<Evictable>());
  EXPECT_EQ(inner.carrier_type, carrier_class<CPU>());
  EXPECT_EQ(inner.parent_id, 0);
  EXPECT_EQ(outer.self_time_ns, outer.duration_ns - inner.duration_ns);
  const auto filtered = record({.carriers = std::vector{carrier_class<CPU>()}});
  ASSERT_EQ(filtered->events().size(), 1U);
  EXPECT_EQ(filtered->events()[0].parent_id, std::nullopt);
}

TEST(Profiler, SeesRealCallsAndTheirFailures) {
  const Tensor x = on(CPU::make(30), Shape{{2, 5}, 3});
  Profiler profiler({.record_shapes = true});
  {
    const auto scope = profiler.scope();
    (void)mul(x, Scalar(2.0));
    const std::vector<Argument> wrong{x, Argument::of(std::string("x"))};
    EXPECT_THROW((void)x.carrier()->dispatch_op("add")->forward(wrong), TypeError);
    const OperationExecutionOptions options("matmul");
    const std::vector<Argument> one{x};
    EXPECT_THROW((void)x.carrier()->dispatch_op("relu")->forward(one, &options), ValueError);
  }
  ASSERT_EQ(profiler.events().size(), 2U);
  EXPECT_EQ(profiler.events()[0].input_shapes, (InputShapes{Shape{{2, 5}, 3}, std::nullopt}));
  EXPECT_TRUE(profiler.events()[0].succeeded);
  EXPECT_FALSE(profiler.events()[1].succeeded);
}

TEST(Profiler, WritesATraceWithTransitionsOnATrackOfTheirOwn) {
  const Ref<Evictable> carrier = Evictable::make(CPU::make(2), CPU::make(2));
  Profiler profiler;
  profiler.enter();
  call("relu");
  carrier->evict();
  EXPECT_THROW(static_cast<void>(profiler.transitions()), RuntimeError);
  profiler.exit();
  const std::vector<ResidencyTransition> transitions = profiler.transitions();
  ASSERT_EQ(transitions.size(), 1);
  EXPECT_EQ(transitions[0].name, "evict");
  EXPECT_EQ(transitions[0].bytes, 8);
  EXPECT_TRUE(transitions[0].succeeded);
  const auto path = std::filesystem::path(testing::TempDir()) / "orlop_trace.json";
  export_chrome_trace(profiler, path);
  std::ifstream file(path);
  const std::string json(std::istreambuf_iterator<char>(file), {});
  EXPECT_THAT(json, HasSubstr("\"args\":{\"carrier\":\"Evictable\",\"bytes\":8,\"succeeded\":true}"));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace orlop
