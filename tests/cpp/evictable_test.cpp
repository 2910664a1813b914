// Evictable from C++: construction in order, transitions, access, ownership, failures, operations, gradients,
// factories and release.
#include <array>
#include <functional>

#include "backends.hpp"
#include "orlop/carriers/evictable/evictable.hpp"
#include "orlop/carriers/file_backed/file_backed.hpp"
#include "orlop/carriers/generic/generic.hpp"
#include "orlop/movement/move.hpp"
#include "orlop/operation/autograd.hpp"
#include "orlop/operation/functional.hpp"
#include "orlop/operation/views.hpp"

namespace orlop::inline v0 {
namespace {

using testing::ElementsAre;
using testing_support::elements;
using testing_support::expect_refusal;
using testing_support::Slots;

Ref<FileBacked> empty_file() { return FileBacked::make(dtypes::Float32); }

/// CPU over a file, holding 0.5, 1.5, 2.5.
Ref<Evictable> hierarchy() {
  const Ref<CPU> primary = CPU::make(3);
  for (Index i = 0; i < 3; ++i) primary->store(i, Scalar(static_cast<double>(i) + 0.5));
  return Evictable::make(primary, empty_file());
}

Tensor flat(const Ref<Carrier>& carrier) {
  return Tensor(carrier, 0, Layout(Shape{carrier->size()}, Stride{1}));
}

TEST(Evictable, ChecksItsTiersInOrderAndClaimsNothingOnFailure) {
  const Ref<CPU> cpu = CPU::make(2);
  const auto refuse = [&]<class E>(std::type_identity<E>, Ref<Carrier> primary, Ref<Carrier> secondary,
                                   const std::string& words) {
    expect_refusal<E>([&] { static_cast<void>(Evictable::make(primary, secondary)); }, words);
  };
  const std::type_identity<TypeError> type_error;
  const std::type_identity<ValueError> value_error;
  const std::type_identity<RuntimeError> runtime_error;
  const Ref<CPU> released = CPU::make(1, {.dtype = dtypes::Int32});
  released->release();
  const Ref<CPU> owned = CPU::make(1, {.dtype = dtypes::Int32});
  const Carrier::OwnerToken token = owned->claim_ownership();
  refuse(type_error, {}, released, "primary must be a Carrier");
  refuse(type_error, released, {}, "secondary must be a Carrier");
  refuse(value_error, released, released, "distinct");
  refuse(runtime_error, released, owned, "primary is released");
  refuse(runtime_error, owned, released, "secondary is released");
  refuse(runtime_error, owned, cpu, "primary is already owned");
  refuse(runtime_error, cpu, owned, "secondary is already owned");
  refuse(type_error, cpu, CPU::make(0, {.is_mutable = false, .dtype = dtypes::Int32}), "dtypes");
  refuse(runtime_error, CPU::make(0), CPU::make(0, {.is_mutable = false}), "mutable");
  refuse(value_error, CPU::make(0), cpu, "at least one");
  EXPECT_FALSE(cpu->is_owned());
  owned->relinquish_ownership(token);
}

TEST(Evictable, ValuesTravelBothWaysAndNothingElseChanges) {
  const Ref<Evictable> carrier = hierarchy();
  const Ref<Carrier> first = carrier->primary();
  EXPECT_EQ(carrier->residency(), "promoted");
  for (int round = 0; round < 3; ++round) {
    carrier->evict();
    carrier->evict();
    EXPECT_TRUE(carrier->is_evicted());
    EXPECT_TRUE(carrier->primary()->is_released());
    EXPECT_EQ(carrier->secondary()->size(), 3);
    EXPECT_EQ(carrier->secondary()->at(2).to_binary32(), 2.5F);
    EXPECT_EQ(carrier->size(), 3);
    carrier->promote();
    carrier->promote();
    EXPECT_FALSE(carrier->is_evicted());
    EXPECT_THAT(elements<float>(flat(carrier)), ElementsAre(0.5F, 1.5F, 2.5F));
    EXPECT_EQ(carrier->version(), 0);
  }
  EXPECT_NE(carrier->primary(), first);
  EXPECT_FALSE(first->is_owned());
}

TEST(Evictable, AnEvictedHierarchyRefusesAccessAfterTheChecksOfTheCarrier) {
  const Ref<Evictable> carrier = hierarchy();
  const Tensor tensor = flat(carrier);
  carrier->evict();
  EXPECT_EQ(carrier->residency(), "evicted");
  for (const std::function<void()>& call :
       {std::function<void()>([&] { static_cast<void>(carrier->at(0)); }),
        {[&] { carrier->store(0, Scalar(1.0)); }},
        {[&] { static_cast<void>(relu(tensor)); }},
        {[&] { static_cast<void>(carrier->dispatch_op("relu")); }},
        {[&] { carrier->scatter(flat(CPU::make(3)), tensor, tensor.layout()); }}}) {
    expect_refusal<RuntimeError>(call, "evicted");
    expect_refusal<RuntimeError>(call, "promote");
  }
  EXPECT_THROW(static_cast<void>(carrier->at(3)), IndexError);
  EXPECT_EQ(carrier->version(), 0);
}

TEST(Evictable, WritesAndScatterAdvanceTheWrapperByOne) {
  const Ref<Evictable> carrier = hierarchy();
  carrier->store(1, Scalar(4.0));
  EXPECT_EQ(carrier->version(), 1);
  const Tensor onto = flat(carrier);
  carrier->scatter(flat(hierarchy()), onto, onto.layout());
  EXPECT_EQ(carrier->version(), 2);
  EXPECT_THAT(elements<float>(onto), ElementsAre(0.5F, 1.5F, 2.5F));
  expect_refusal<ValueError>([&] { carrier->scatter(onto, flat(CPU::make(3)), onto.layout()); }, "");
  EXPECT_EQ(carrier->version(), 2);
}

TEST(Evictable, TiersAreReadOnlyForOthersWhileOwned) {
  const Ref<Evictable> carrier = hierarchy();
  for (const Ref<Carrier>& tier : {carrier->primary(), carrier->secondary()}) {
    EXPECT_TRUE(tier->is_owned());
    EXPECT_FALSE(tier->is_mutable());
    EXPECT_THROW(tier->release(), RuntimeError);
  }
  EXPECT_EQ(carrier->primary()->at(0).to_binary32(), 0.5F);
  EXPECT_THROW(carrier->primary()->store(0, Scalar(1.0)), RuntimeError);
  EXPECT_THROW(move(flat(carrier->primary()), CPU::make(3)), RuntimeError);
}

/// A move that fails when told so.
class Failing final : public ElementwiseMoveOperation {
 public:
  static inline bool fails = true;

 protected:
  void copy(const Tensor& tensor, Carrier& destination, const Tensor& output, Index element_count) override {
    if (fails) raise<ValueError>("Failing", "no way");
    ElementwiseMoveOperation::copy(tensor, destination, output, element_count);
  }
};

TEST(Evictable, AFailedTransitionChangesNothingAndCanBeRepeated) {
  const Ref<Slots> primary = make_ref<Slots>(2, dtypes::Float32);
  primary->store(0, Scalar(3.0));
  const Ref<Evictable> carrier = Evictable::make(primary, empty_file());
  const CarrierClass slots = carrier_class<Slots>(), file = carrier_class<FileBacked>();
  register_move_operation(slots, file, move_route<Failing>("Failing"));
  register_move_operation(file, slots, move_route<Failing>("Failing"));
  Failing::fails = true;
  expect_refusal<ValueError>([&] { carrier->evict(); }, "no way");
  EXPECT_FALSE(carrier->is_evicted());
  EXPECT_EQ(carrier->at(0).to_binary32(), 3.0F);
  Failing::fails = false;
  carrier->evict();
  Failing::fails = true;
  expect_refusal<ValueError>([&] { carrier->promote(); }, "no way");
  EXPECT_TRUE(carrier->is_evicted());
  Failing::fails = false;
  carrier->promote();
  EXPECT_EQ(carrier->at(0).to_binary32(), 3.0F);
  EXPECT_EQ(carrier->version(), 0);
  unregister_move_operation(slots, file);
  unregister_move_operation(file, slots);
}

TEST(Evictable, ResultsAndGradientsAreHierarchiesOfTheSameClasses) {
  const Ref<Evictable> carrier = hierarchy();
  const Tensor tensor = flat(carrier), result = mul(tensor, tensor);
  EXPECT_THAT(elements<float>(result), ElementsAre(0.25F, 2.25F, 6.25F));
  EXPECT_EQ(carrier->version(), 0);
  const Tensor ones = flat(carrier->new_like(std::vector<Scalar>(3, Scalar(1.0))));
  backward(result, ones, {.retain_graph = true});
  EXPECT_THAT(elements<float>(gradient_of(tensor)), ElementsAre(1.0F, 3.0F, 5.0F));
  for (const Tensor& made : {result, gradient_of(tensor)}) {
    EXPECT_EQ(made.carrier_type(), carrier_class<Evictable>());
    const auto& owner = dynamic_cast<const Evictable&>(*made.carrier());
    EXPECT_EQ(owner.primary()->carrier_class(), carrier_class<CPU>());
    EXPECT_EQ(owner.secondary()->carrier_class(), carrier_class<FileBacked>());
  }
  EXPECT_EQ(permute(tensor, std::array<Index, 1>{0}).carrier(), tensor.carrier());
  // A trip to the file and back is no write: the graph still runs.
  carrier->evict();
  carrier->promote();
  backward(result, ones, {.retain_graph = true});
  EXPECT_THAT(elements<float>(gradient_of(tensor)), ElementsAre(2.0F, 6.0F, 10.0F));
  carrier->store(0, Scalar(9.0));
  expect_refusal<RuntimeError>([&] { backward(result, ones); }, "modified in-place");
}

TEST(Evictable, FactoriesMakePromotedHierarchies) {
  const Ref<Evictable> carrier = hierarchy();
  carrier->evict();
  for (const Index size : {Index{4}, Index{0}}) {
    const Ref<Carrier> made = carrier->allocate_like(size, {.is_mutable = false});
    EXPECT_EQ(made->carrier_class(), carrier->carrier_class());
    EXPECT_EQ(made->size(), size);
    EXPECT_FALSE(made->is_mutable());
    EXPECT_FALSE(dynamic_cast<const Evictable&>(*made).is_evicted());
  }
  EXPECT_EQ(carrier->new_like(std::vector<Scalar>{Scalar(7.0)})->at(0).to_binary32(), 7.0F);
}

TEST(Evictable, ImmutableHierarchiesTravelToo) {
  const std::vector<Scalar> values{Scalar(1.0), Scalar(2.0)};
  const Ref<Evictable> carrier =
      Evictable::make(CPU::make(0)->new_like(values, {.is_mutable = false}), empty_file());
  carrier->evict();
  carrier->promote();
  EXPECT_FALSE(carrier->is_mutable());
  EXPECT_THROW(carrier->store(0, Scalar(1.0)), RuntimeError);
  EXPECT_THAT(elements<float>(flat(carrier)), ElementsAre(1.0F, 2.0F));
}

TEST(Evictable, ReleaseGivesUpBothTiersAndDestructionNone) {
  Ref<Evictable> carrier = hierarchy();
  Ref<Carrier> primary = carrier->primary(), secondary = carrier->secondary();
  carrier->release();
  carrier->release();
  EXPECT_TRUE(primary->is_released() && secondary->is_released());
  EXPECT_EQ(carrier->size(), 0);
  for (const std::function<void()>& call : {std::function<void()>([&] { carrier->evict(); }),
                                            {[&] { carrier->promote(); }},
                                            {[&] { static_cast<void>(carrier->at(0)); }}})
    expect_refusal<RuntimeError>(call, "released");

  carrier = hierarchy();
  primary = carrier->primary();
  secondary = carrier->secondary();
  carrier = {};
  for (const Ref<Carrier>& tier : {primary, secondary}) {
    EXPECT_FALSE(tier->is_owned());
    EXPECT_FALSE(tier->is_released());
  }
  EXPECT_EQ(primary->at(1).to_binary32(), 1.5F);
}

}  // namespace
}  // namespace orlop::inline v0
