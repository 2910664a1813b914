// Compound and block-scaled descriptors.
#include "orlop/dtype/compound.hpp"

#include "registry.hpp"

namespace orlop::inline v0 {

namespace {

void append_reference(Structure& structure, const DType& dtype) {
  structure.open().string(dtype.name()).append(dtype.structure()).close();
}

CompoundDType::Options block_scaled_planes(const std::string& name,
                                           const BlockScaledDType::Options& options) {
  constexpr std::string_view what = "BlockScaledDType";
  if (!options.element)
    raise<TypeError>(what, "element of '", name,
                     "' must be a SimpleDType: got none; use one such as DType.E2M1");
  if (options.levels.empty())
    raise<ValueError>(what, "'", name, "' needs at least one level: got none; give a Level(scale, block)");
  CompoundDType::Options planes{.supertype = dtypes::Any, .simple_types = {options.element}};
  for (std::size_t i = 0; i < options.levels.size(); ++i) {
    const Level& level = options.levels[i];
    if (level.is_whole() && i + 1 != options.levels.size())
      raise<ValueError>(what, "level ", i, " of '", name, "' is Whole: only the final level may be; it has ",
                        options.levels.size(), " levels");
    planes.simple_types.push_back(level.scale);
    planes.representation_rules.emplace_back(make_ref<const LevelExtent>(static_cast<Index>(i), level.block));
  }
  return planes;
}

}  // namespace

CompoundDType::CompoundDType(std::string name, Options options)
    : DType(Kind::compound, std::move(name), options.supertype.get()),
      simple_types_(std::move(options.simple_types)),
      representation_rules_(std::move(options.representation_rules)) {
  constexpr std::string_view what = "CompoundDType";
  if (this->name().empty()) raise<ValueError>(what, "name must be a non-empty str: got ''; name the dtype");
  if (simple_types_.empty())
    raise<ValueError>(what, "'", this->name(),
                      "' needs at least one simple dtype: got none; name its planes");
  for (const SimpleRef plane : simple_types_)
    if (!plane)
      raise<TypeError>(what, "simple_types of '", this->name(), "' must be SimpleDType descriptors");
  for (const auto& rule : representation_rules_)
    if (!rule) raise<TypeError>(what, "representation_rules of '", this->name(), "' must be rules");
}

void CompoundDType::append_structure(Structure& structure) const {
  structure.string("CompoundDType").open();
  for (const SimpleRef plane : simple_types_) append_reference(structure, *plane);
  structure.close().open();
  for (const auto& rule : representation_rules_) structure.open().append(rule->structure()).close();
  structure.close();
}

std::vector<const CompoundDType*> CompoundDType::registered() {
  return detail::DTypeRegistry::instance().all<CompoundDType>();
}
const CompoundDType& CompoundDType::from_name(std::string_view name) {
  return detail::DTypeRegistry::instance().get<CompoundDType>(name, "CompoundDType");
}

Level::Level(SimpleRef scale_dtype, BlockExtent block_extent) : scale(scale_dtype), block(block_extent) {
  if (!scale) raise<TypeError>("Level", "scale must be a SimpleDType: got none; use one such as DType.E8M0");
}

std::string Level::to_string() const { return text("Level(scale=", *scale, ", block=", block, ')'); }

double SymbolicBits::evaluate(Index element_count) const {
  if (element_count < 1)
    raise<ValueError>("SymbolicBits.evaluate", "element_count must be at least 1: got ", element_count);
  return constant + static_cast<double>(whole_scale_bits) / static_cast<double>(element_count);
}

std::string SymbolicBits::to_string() const {
  return text("SymbolicBits(constant=", constant, ", whole_scale_bits=", whole_scale_bits, ')');
}

BlockScaledDType::BlockScaledDType(const std::string& name, Options options)
    : CompoundDType(name, block_scaled_planes(name, options)), levels_(std::move(options.levels)) {}

const BlockScaledDType& BlockScaledDType::make(const std::string& name, Options options) {
  return make_dtype<BlockScaledDType>(name, std::move(options));
}

Index BlockScaledDType::num_axes() const noexcept {
  return static_cast<Index>(levels_.size()) - (levels_.back().is_whole() ? 1 : 0);
}

std::variant<double, SymbolicBits> BlockScaledDType::bits_per_element() const noexcept {
  auto bits = static_cast<double>(element().bits());
  double covered = 1;  // elements under one scale of the level reached
  for (const Level& level : levels_) {
    if (level.is_whole()) return SymbolicBits{bits, level.scale->bits()};
    covered *= static_cast<double>(level.block.count());
    bits += static_cast<double>(level.scale->bits()) / covered;
  }
  return bits;
}

void BlockScaledDType::append_structure(Structure& structure) const {
  CompoundDType::append_structure(structure);
  structure.string("BlockScaledDType");
  append_reference(structure, element());
  structure.open();
  for (const Level& level : levels_) {
    structure.open();
    append_reference(structure, *level.scale);
    level.block.append_to(structure);
    structure.close();
  }
  structure.close();
}

std::vector<const BlockScaledDType*> BlockScaledDType::registered() {
  return detail::DTypeRegistry::instance().all<BlockScaledDType>();
}
const BlockScaledDType& BlockScaledDType::from_name(std::string_view name) {
  return detail::DTypeRegistry::instance().get<BlockScaledDType>(name, "BlockScaledDType");
}

}  // namespace orlop::inline v0
