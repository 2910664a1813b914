// Descriptors, compound formats, rules, and the storage dtype helpers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "orlop/base/error.hpp"
#include "orlop/dtype/compound.hpp"
#include "orlop/storage/storage_dtype.hpp"
#include "orlop/tensor/representation.hpp"

namespace orlop::inline v0 {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Filled while this program's static objects start, as other units' tables are.
struct Row {
  DTypeRef dtype;
  StorageType type;
  std::string name;
};
const std::vector<Row> static_table{{dtypes::Float32, dtypes::Float32.storage_type(), dtypes::Float32.name()},
                                    {dtypes::Bool, dtypes::Bool.storage_type(), dtypes::Bool.name()},
                                    {dtypes::Int32, dtypes::Int32.storage_type(), dtypes::Int32.name()},
                                    {dtypes::Int8, dtypes::Int8.storage_type(), dtypes::Int8.name()}};

template <class E, class Call>
std::string failure(Call call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing of this type was raised";
  return {};
}

std::vector<std::string> names(const auto& dtypes) {
  std::vector<std::string> found;
  for (const auto* dtype : dtypes) found.push_back(dtype->name());
  return found;
}

TEST(DType, BuiltinsAreReadyInStaticTables) {
  EXPECT_EQ(static_table[0].dtype, dtypes::Float32);
  EXPECT_EQ(static_table[0].name, "Float32");
  EXPECT_EQ(static_table[1].type, StorageType::bool8);
  EXPECT_EQ(static_table[2].type, StorageType::int32);
  EXPECT_EQ(static_table[3].type, StorageType::other);
}

TEST(DType, StorageTypeKnowsItsSlotBytes) {
  EXPECT_EQ(dtypes::Float32.slot_bytes(), 4);
  EXPECT_EQ(dtypes::Int32.slot_bytes(), 4);
  EXPECT_EQ(dtypes::Bool.slot_bytes(), 1);
  EXPECT_EQ(dtypes::Float64.slot_bytes(), 0);
  EXPECT_EQ(dtypes::Floating.storage_type(), StorageType::other);
}

TEST(DType, BuiltinsFormTheTreeOfTheTable) {
  EXPECT_EQ(dtypes::Any.supertype(), nullptr);
  EXPECT_THAT(names(dtypes::Float32.supertypes()), ElementsAre("Floating", "Any"));
  EXPECT_THAT(names(dtypes::Int8.supertypes()), ElementsAre("Integer", "Any"));
  EXPECT_THAT(names(dtypes::NVFP4.supertypes()), ElementsAre("Any"));
  EXPECT_TRUE(dtypes::Any.is_opaque_storage());
  EXPECT_TRUE(dtypes::Floating.is_opaque_storage());
  EXPECT_FALSE(dtypes::Integer.is_opaque_storage());
  const std::vector<std::pair<const SimpleDType*, Index>> widths{
      {&dtypes::Bool, 8},     {&dtypes::Int32, 32}, {&dtypes::Int8, 8}, {&dtypes::Float32, 32},
      {&dtypes::Float64, 64}, {&dtypes::E8M0, 8},   {&dtypes::E5M2, 8}, {&dtypes::E4M3, 8},
      {&dtypes::E3M2, 6},     {&dtypes::E2M3, 6},   {&dtypes::E2M1, 4}};
  for (const auto& [dtype, bits] : widths) EXPECT_EQ(dtype->bits(), bits) << dtype->name();
}

TEST(DType, QueriesTellTheKind) {
  EXPECT_TRUE(dtypes::Integer.is_category());
  EXPECT_TRUE(dtypes::Float32.is_simple());
  EXPECT_TRUE(dtypes::MXFP4.is_compound());
  EXPECT_FALSE(dtypes::MXFP4.is_simple());
  EXPECT_TRUE(dtypes::Float32.is_subtype_of(dtypes::Float32));
  EXPECT_TRUE(dtypes::Float32.is_subtype_of(dtypes::Any));
  EXPECT_FALSE(dtypes::Float32.is_subtype_of(dtypes::Integer));
  EXPECT_TRUE(dtypes::Float32.representation_rules().empty());
  EXPECT_EQ(dtypes::Float32.to_string(), "SimpleDType('Float32')");
}

TEST(DType, FromNameFindsTheOneObjectOfAClass) {
  EXPECT_EQ(&DType::from_name("Float32"), &dtypes::Float32);
  EXPECT_EQ(&SimpleDType::from_name("Int8"), &dtypes::Int8);
  EXPECT_EQ(&BlockScaledDType::from_name("NVFP4"), &dtypes::NVFP4);
  EXPECT_THAT(failure<LookupError>([] { (void)DType::from_name("Float12"); }),
              HasSubstr("No Orlop dtype named 'Float12'"));
  EXPECT_THAT(failure<LookupError>([] { (void)SimpleDType::from_name("Any"); }),
              HasSubstr("not a SimpleDType descriptor"));
}

TEST(DType, RegisteredKeepsTheOrder) {
  EXPECT_THAT(names(DTypeCategory::registered()).front(), "Any");
  const auto formats = names(BlockScaledDType::registered());
  EXPECT_EQ(formats[0], "MXFP8_E4M3");
  EXPECT_EQ(formats[6], "NVFP4");
  EXPECT_GE(DType::registered().size(), 21U);
}

TEST(DType, RegisteringTakesANameOnce) {
  const SimpleDType& half = SimpleDType::make("Half", {.bits = 16, .supertype = dtypes::Floating});
  EXPECT_EQ(&SimpleDType::from_name("Half"), &half);
  EXPECT_THAT(
      failure<ValueError>([] { SimpleDType::make("Half", {.bits = 16, .supertype = dtypes::Floating}); }),
      HasSubstr("already registered"));
}

TEST(DType, AFailedConstructionLeavesTheNameFree) {
  EXPECT_THAT(failure<ValueError>([] { SimpleDType::make("Free", {.bits = 0, .supertype = dtypes::Any}); }),
              HasSubstr("exact positive bit width"));
  EXPECT_THAT(failure<TypeError>([] { SimpleDType::make("Free", {.bits = 3}); }), HasSubstr("supertype"));
  EXPECT_THAT(failure<ValueError>([] { DTypeCategory::make("", {}); }), HasSubstr("non-empty"));
  EXPECT_THROW((void)DType::from_name("Free"), LookupError);
  EXPECT_EQ(DTypeCategory::make("Free", {.supertype = dtypes::Any}).name(), "Free");
}

TEST(DType, OfRacingConstructorsOneWins) {
  std::atomic<int> won = 0, lost = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      try {
        SimpleDType::make("Raced", {.bits = 5, .supertype = dtypes::Any});
        ++won;
      } catch (const ValueError&) {
        ++lost;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(won, 1);
  EXPECT_EQ(lost, 7);
}

TEST(DType, StructureIsTheTreeOfItsParts) {
  EXPECT_EQ(dtypes::Any.structure().to_string(), "('str:DType', 'none', 'str:DTypeCategory', 'bool:True')");
  EXPECT_EQ(
      dtypes::Bool.structure().to_string(),
      "('str:DType', ('str:Any', 'str:DType', 'none', 'str:DTypeCategory', 'bool:True'), 'str:SimpleDType', "
      "'int:8')");
  EXPECT_THAT(dtypes::MXFP4.structure().to_string(), HasSubstr("'str:BlockScaledDType'"));
  EXPECT_NE(dtypes::E5M2.structure(), dtypes::E3M2.structure());
}

TEST(DType, ADeepChainOfCategoriesIsSafe) {
  CategoryRef above = dtypes::Any;
  for (int i = 0; i < 5000; ++i) above = DTypeCategory::make(text("Chain", i), {.supertype = above});
  EXPECT_TRUE(above->is_subtype_of(dtypes::Any));
  EXPECT_EQ(&resolve_dtype("Chain4999", above->structure()), above.get());
}

TEST(DType, ResolveReturnsTheReceiversObject) {
  EXPECT_EQ(&resolve_dtype("NVFP4", dtypes::NVFP4.structure()), &dtypes::NVFP4);
  EXPECT_THAT(failure<LookupError>([] { (void)resolve_dtype("Absent", {}); }),
              HasSubstr("must be registered again"));
  EXPECT_THAT(failure<ValueError>([] { (void)resolve_dtype("E5M2", dtypes::E2M1.structure()); }),
              HasSubstr("another structure"));
}

// A dtype of a class from outside, with its own part of the structure.
class Fixed : public SimpleDType {
 public:
  [[nodiscard]] Index fraction() const noexcept { return fraction_; }

 protected:
  Fixed(std::string name, Index fraction)
      : SimpleDType(std::move(name), {.bits = 16, .supertype = dtypes::Any}), fraction_(fraction) {}
  [[nodiscard]] Structure structure_extension() const override { return Structure().integer(fraction_); }

 private:
  Index fraction_;
};

TEST(DType, AnOutsideClassAddsItsPartToTheStructure) {
  const Fixed& fixed = make_dtype<Fixed>("Q8", 8);
  EXPECT_EQ(fixed.fraction(), 8);
  EXPECT_EQ(&SimpleDType::from_name("Q8"), &fixed);
  EXPECT_THAT(fixed.structure().to_string(), HasSubstr("'int:16', 'int:8')"));
}

TEST(DTypeRef, HoldsADescriptorOrNone) {
  const DTypeRef none;
  EXPECT_FALSE(none);
  const DTypeRef chosen = SimpleRef(dtypes::Int32);
  EXPECT_TRUE(chosen == dtypes::Int32);
  EXPECT_EQ(chosen->name(), "Int32");
  EXPECT_EQ(std::hash<DTypeRef>()(chosen), std::hash<DTypeRef>()(dtypes::Int32));
}

TEST(BlockScaledDType, FormatsHaveTheirBits) {
  const std::vector<std::pair<const BlockScaledDType*, double>> formats{
      {&dtypes::MXFP8_E4M3, 8.25}, {&dtypes::MXFP8_E5M2, 8.25}, {&dtypes::MXINT8, 8.25},
      {&dtypes::MXFP6_E3M2, 6.25}, {&dtypes::MXFP6_E2M3, 6.25}, {&dtypes::MXFP4, 4.25}};
  for (const auto& [format, bits] : formats) {
    EXPECT_EQ(std::get<double>(format->bits_per_element()), bits) << format->name();
    EXPECT_EQ(format->num_axes(), 1);
    EXPECT_EQ(format->num_carriers(), 2);
  }
  const auto bits = std::get<SymbolicBits>(dtypes::NVFP4.bits_per_element());
  EXPECT_EQ(bits, (SymbolicBits{4.5, 32}));
  EXPECT_EQ(bits.evaluate(1024), 4.53125);
  EXPECT_THROW((void)bits.evaluate(0), ValueError);
  EXPECT_EQ(dtypes::NVFP4.num_axes(), 1);
}

TEST(BlockScaledDType, PlanesAndRulesFollowTheLevels) {
  EXPECT_THAT(dtypes::NVFP4.simple_types(),
              ElementsAre(SimpleRef(dtypes::E2M1), SimpleRef(dtypes::E4M3), SimpleRef(dtypes::Float32)));
  ASSERT_EQ(dtypes::NVFP4.representation_rules().size(), 2U);
  const auto* last = dynamic_cast<const LevelExtent*>(dtypes::NVFP4.representation_rules()[1].get());
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(last->level(), 1);
  EXPECT_TRUE(last->extent().is_whole());
  EXPECT_EQ(dtypes::NVFP4.levels()[0].to_string(), "Level(scale=SimpleDType('E4M3'), block=16)");
}

TEST(BlockScaledDType, ConstructorRejectsWhatIsNoFormat) {
  EXPECT_THROW(BlockScaledDType::make("X", {}), TypeError);
  EXPECT_THAT(
      failure<ValueError>([] { BlockScaledDType::make("X", {.element = dtypes::E2M1, .levels = {}}); }),
      HasSubstr("at least one level"));
  EXPECT_THAT(failure<ValueError>([] {
                BlockScaledDType::make(
                    "X", {.element = dtypes::E2M1, .levels = {{dtypes::E8M0, Whole}, {dtypes::E8M0, 4}}});
              }),
              HasSubstr("Whole"));
  EXPECT_THROW(Level({}, 3), TypeError);
  EXPECT_THROW(Level(dtypes::E8M0, 0), ValueError);
}

TEST(BlockScaledDType, OneStructureHasOneName) {
  EXPECT_THAT(failure<ValueError>([] {
                BlockScaledDType::make("Mine", {.element = dtypes::E2M1, .levels = {{dtypes::E8M0, 32}}});
              }),
              HasSubstr("'MXFP4' already describes"));
  EXPECT_THROW((void)DType::from_name("Mine"), LookupError);
  EXPECT_EQ(BlockScaledDType::make("Mine", {.element = dtypes::E2M1, .levels = {{dtypes::E8M0, 64}}}).name(),
            "Mine");
}

// A context with given level sizes and preimages.
class Facts final : public RepresentationValidationContext {
 public:
  Facts(std::vector<Index> sizes, std::vector<std::optional<Index>> preimages)
      : sizes_(std::move(sizes)), preimages_(std::move(preimages)) {}
  [[nodiscard]] const DType& logical_dtype() const override { return dtypes::NVFP4; }
  [[nodiscard]] std::span<const DTypeRef> storage_dtypes() const override { return {}; }
  [[nodiscard]] Index adjacent_count() const override { return static_cast<Index>(preimages_.size()); }
  [[nodiscard]] Index level_size(Index level) const override {
    return sizes_[static_cast<std::size_t>(level)];
  }
  [[nodiscard]] std::optional<Index> uniform_preimage_extent(Index edge) const override {
    return preimages_[static_cast<std::size_t>(edge)];
  }

 private:
  std::vector<Index> sizes_;
  std::vector<std::optional<Index>> preimages_;
};

TEST(LevelExtent, AcceptsUniformBlocks) {
  EXPECT_NO_THROW(LevelExtent(0, 16).validate(Facts({32, 2}, {16})));
  EXPECT_NO_THROW(LevelExtent(1, Whole).validate(Facts({32, 2, 1}, {16, 2})));
  const Index huge = Index{1'000'000'000} * 1'000'000'000;
  EXPECT_NO_THROW(LevelExtent(0, Whole).validate(Facts({huge, 1}, {huge})));
}

TEST(LevelExtent, SaysWhatIsWrong) {
  const auto says = [](const LevelExtent& rule, const Facts& facts) {
    const std::string what = failure<ValueError>([&] { rule.validate(facts); });
    EXPECT_THAT(what, StartsWith(text("NVFP4 LevelExtent rule at level ", rule.level())));
    return what;
  };
  EXPECT_THAT(says(LevelExtent(1, 4), Facts({8, 2}, {4})), HasSubstr("has no adjacent layout"));
  EXPECT_THAT(says(LevelExtent(0, Whole), Facts({8, 2}, {4})), HasSubstr("complete source level"));
  EXPECT_THAT(says(LevelExtent(0, 3), Facts({8, 2}, {4})), HasSubstr("requires target cardinality"));
  EXPECT_THAT(says(LevelExtent(0, 4), Facts({8, 4}, {2})), HasSubstr("requires target cardinality"));
  EXPECT_THAT(says(LevelExtent(0, 4), Facts({8, 2}, {std::nullopt})),
              HasSubstr("overlaps targets or leaves holes"));
  EXPECT_THAT(says(LevelExtent(0, Whole), Facts({8, 1}, {std::nullopt})),
              HasSubstr("overlaps targets or leaves holes"));
  EXPECT_THROW(LevelExtent(-1, 4), ValueError);
  EXPECT_THROW(LevelExtent(0, 0), ValueError);
}

// The element plane, one plane of scales, and the layout between them; no carrier is needed to judge the
// layouts.
TensorRepresentation two_levels(Layout elements, Layout scales, Layout adjacent) {
  return {&dtypes::MXFP4,
          {{&dtypes::E2M1, {}, 0, std::move(elements)}, {&dtypes::E8M0, {}, 0, std::move(scales)}},
          {std::move(adjacent)}};
}

TEST(LevelExtent, ReadsLayoutsOfAnySizeAtOnce) {
  constexpr Index billion = 1'000'000'000;
  const Shape shape{billion, billion};
  const TensorRepresentation blocks =
      two_levels(Layout::canonical(shape), Layout::leaf(billion, 1), Layout(shape, Stride{0, 1}));
  EXPECT_NO_THROW(LevelExtent(0, BlockExtent(billion)).validate(RepresentationContext(blocks)));
  EXPECT_THROW(LevelExtent(0, BlockExtent(billion - 1)).validate(RepresentationContext(blocks)), ValueError);
  const TensorRepresentation whole =
      two_levels(Layout::canonical(shape), Layout::leaf(1, 0), Layout(shape, Stride{0, 0}));
  EXPECT_NO_THROW(LevelExtent(0, Whole).validate(RepresentationContext(whole)));
  EXPECT_THROW(LevelExtent(0, BlockExtent(billion)).validate(RepresentationContext(whole)), ValueError);
}

// A rule from outside that reads the layouts themselves.
class OneMode final : public RepresentationRule {
 public:
  void validate(const RepresentationValidationContext& context) const override {
    const auto& representation = dynamic_cast<const RepresentationContext&>(context).representation();
    if (representation.subtensors[0].layout.rank() != 1) throw ValueError("more than one mode");
  }
  [[nodiscard]] Structure structure() const override {
    return Structure().string("test").string("OneMode").open().close();
  }
};

class OneModePair : public CompoundDType {
 protected:
  explicit OneModePair(std::string name)
      : CompoundDType(std::move(name), {.simple_types = {dtypes::E2M1, dtypes::E8M0},
                                        .representation_rules = {make_ref<const OneMode>()}}) {}
};

TEST(RepresentationRule, ARuleFromOutsideReadsTheLayouts) {
  const CompoundDType& pair = make_dtype<OneModePair>("OneModePair");
  ASSERT_EQ(pair.representation_rules().size(), 1U);
  const RepresentationRule& rule = *pair.representation_rules()[0];
  const TensorRepresentation flat = two_levels(Layout::leaf(32, 1), Layout::leaf(1, 1), Layout::leaf(32, 0));
  EXPECT_NO_THROW(rule.validate(RepresentationContext(flat)));
  const Shape square{4, 4};
  const TensorRepresentation deep =
      two_levels(Layout::canonical(square), Layout::leaf(1, 1), Layout(square, Stride{0, 0}));
  EXPECT_THROW(rule.validate(RepresentationContext(deep)), ValueError);
  EXPECT_THAT(pair.structure().to_string(), HasSubstr("('str:test', 'str:OneMode', ())"));
}

TEST(LevelExtent, StructureNamesTheRule) {
  EXPECT_EQ(LevelExtent(0, Whole).structure().to_string(),
            "('str:orlop.carriers.dtype', 'str:LevelExtent', ('int:0', 'whole'))");
}

const DType* const accepted[] = {&dtypes::Float32, &dtypes::Int32, &dtypes::Bool};

TEST(StorageDtype, ValidateReturnsTheSameDescriptor) {
  EXPECT_EQ(&validate_storage_dtype(dtypes::Int32, "CPU", accepted), &dtypes::Int32);
}

TEST(StorageDtype, ValidateNamesTheAcceptedDescriptors) {
  const auto said = [](const DType& dtype, std::size_t count) {
    return failure<ValueError>(
        [&] { (void)validate_storage_dtype(dtype, "CPU", std::span(accepted).subspan(0, count)); });
  };
  EXPECT_THAT(said(dtypes::Float64, 3),
              HasSubstr("CPU dtype must be DType.Float32, DType.Int32, or DType.Bool"));
  EXPECT_THAT(said(dtypes::Float64, 2), HasSubstr("CPU dtype must be DType.Float32 or DType.Int32:"));
  EXPECT_THAT(said(dtypes::Floating, 1), HasSubstr("CPU dtype must be DType.Float32:"));
  EXPECT_THAT(said(dtypes::Float32, 0), HasSubstr("accepts no dtype"));
  EXPECT_THAT(said(dtypes::NVFP4, 3), HasSubstr("CPU cannot store compound dtype 'NVFP4'"));
  EXPECT_THAT(said(dtypes::NVFP4, 3), HasSubstr("multi-plane"));
}

TEST(StorageDtype, AcceptsByIdentity) {
  EXPECT_TRUE(accepts_storage_dtype(dtypes::Bool, accepted));
  EXPECT_FALSE(accepts_storage_dtype(dtypes::Floating, accepted));
  EXPECT_FALSE(accepts_storage_dtype(dtypes::Bool, {}));
}

TEST(StorageDtype, ZeroIsKnownForConcreteDtypes) {
  EXPECT_EQ(storage_zero(dtypes::Float32), Scalar(0.0F));
  EXPECT_EQ(storage_zero(dtypes::Int32), Scalar(std::int32_t{0}));
  EXPECT_EQ(storage_zero(dtypes::Bool), Scalar(false));
  EXPECT_EQ(storage_zero(dtypes::Floating), std::nullopt);
  EXPECT_EQ(storage_zero(dtypes::NVFP4), std::nullopt);
}

}  // namespace
}  // namespace orlop::inline v0
