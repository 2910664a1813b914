// The index maps beside layouts.
#include "orlop/layout/maps.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <unordered_set>

#include "nest.hpp"

namespace orlop::inline v0 {

namespace {

[[noreturn]] void raise_taken_apart(std::string_view kind) {
  raise<RuntimeError>(kind, "the map was taken apart by the cycle collector and has no parts any more");
}

// False where one part is known to be False, True where all are True, else unknown.
template <class Parts>
std::optional<bool> all_injective(const Parts& parts) {
  bool unknown = false;
  for (const Ref<IndexMap>& part : parts) {
    const std::optional<bool> known = part->composition_injectivity();
    if (known == false) return false;
    unknown = unknown || !known;
  }
  return unknown ? std::nullopt : std::optional<bool>(true);
}

Shape flat_shape(Index extent) { return Shape::flat(std::span(&extent, 1)); }

}  // namespace

// Permutation

namespace {

Index checked_entries(const std::vector<Index>& values, Index codomain_size) {
  if (values.empty()) raise<ValueError>("Permutation", "values must have at least one entry: got none");
  std::unordered_set<Index> seen;
  for (const Index value : values) {
    if (value < 0) raise<ValueError>("Permutation", "values must be non-negative: got ", value);
    if (value >= codomain_size)
      raise<ValueError>("Permutation", "values must be smaller than codomain_size: got ", value,
                        " with codomain_size ", codomain_size);
    if (!seen.insert(value).second)
      raise<ValueError>("Permutation", "values must be pairwise distinct: ", value, " twice");
  }
  return static_cast<Index>(values.size());
}

}  // namespace

Permutation::Permutation(std::vector<Index> values, Index codomain_size)
    : StoredIndexMap(flat_shape(checked_entries(values, codomain_size)), codomain_size, true),
      values_(std::move(values)) {}

Ref<IndexMap> Permutation::compose_with(const Ref<IndexMap>& inner) const {
  const auto* permutation = dynamic_cast<const Permutation*>(inner.get());
  if (permutation == nullptr) return nullptr;
  std::vector<Index> values;
  values.reserve(permutation->values_.size());
  for (const Index value : permutation->values_) values.push_back(index_ordinal(value));
  return make_ref<Permutation>(std::move(values), codomain_size());
}

bool Permutation::composition_is_identity() const {
  if (codomain_size() != static_cast<Index>(values_.size())) return false;
  for (std::size_t i = 0; i < values_.size(); ++i)
    if (values_[i] != static_cast<Index>(i)) return false;
  return true;
}

// Product

namespace {

Shape domain_of(const std::vector<Ref<IndexMap>>& children) {
  if (children.size() < 2)
    raise<ValueError>("Product", "a product needs at least two children: got ", children.size());
  detail::NestBuilder builder;
  for (const Ref<IndexMap>& child : children) {
    const Shape shape = child->shape();
    if (shape.rank() > 0 && shape.is_int()) {
      builder.leaf(shape.leaves()[0]);
      continue;
    }
    builder.push();
    builder.modes(shape.nest());
    builder.pop();
  }
  return Shape(builder.finish());
}

Shape codomains_of(const std::vector<Ref<IndexMap>>& children) {
  SmallVector<Index, 4> sizes;
  for (const Ref<IndexMap>& child : children) sizes.push_back(child->codomain_size());
  return Shape::flat(sizes);
}

}  // namespace

Product::Product(std::vector<Ref<IndexMap>> children)
    : StoredIndexMap(domain_of(children), codomains_of(children).size(), all_injective(children)),
      children_(std::move(children)),
      target_shape_(codomains_of(children_)) {}

const std::vector<Ref<IndexMap>>& Product::children() const {
  if (children_.empty()) raise_taken_apart("Product");
  return children_;
}

Index Product::index_ordinal(Index ordinal) const {
  Index value = 0;
  Index step = 1;
  for (const Ref<IndexMap>& child : children()) {
    const Index size = child->domain_size();
    value += step * child->index_ordinal(ordinal % size);
    ordinal /= size;
    step *= child->codomain_size();  // the last product is this codomain, which fits
  }
  return value;
}

Ref<IndexMap> Product::compose_with(const Ref<IndexMap>& inner) const {
  const auto* product = dynamic_cast<const Product*>(inner.get());
  if (product == nullptr || product->children().size() != children().size()) return nullptr;
  for (std::size_t i = 0; i < children_.size(); ++i)
    if (product->children_[i]->codomain_size() != children_[i]->domain_size()) return nullptr;
  std::vector<Ref<IndexMap>> composed;
  composed.reserve(children_.size());
  for (std::size_t i = 0; i < children_.size(); ++i)
    composed.push_back(IndexMap::compose(children_[i], product->children_[i]));
  return make_ref<Product>(std::move(composed));
}

std::optional<bool> Product::composition_injectivity() const { return all_injective(children()); }

bool Product::composition_is_identity() const {
  return std::all_of(children().begin(), children().end(), [](const Ref<IndexMap>& child) {
    return child->composition_is_identity() && child->codomain_size() == child->domain_size();
  });
}

void Product::visit_references(ReferenceVisitor& visitor) const {
  for (const Ref<IndexMap>& child : children_) visitor.visit(child);
}

void Product::drop_references() noexcept { std::exchange(children_, {}).clear(); }

// Swizzle

SwizzleStage::SwizzleStage(Index bits, Index base, Index shift) : bits_(bits), base_(base), shift_(shift) {
  if (bits < 1) raise<ValueError>("SwizzleStage", "bits must be positive: got ", bits);
  if (base < 0) raise<ValueError>("SwizzleStage", "base must be non-negative: got ", base);
  if (shift == 0) raise<ValueError>("SwizzleStage", "shift must be non-zero");
  if (shift > -bits && shift < bits)
    raise<ValueError>("SwizzleStage", "the fields must not overlap: bits ", bits, ", shift ", shift,
                      "; abs(shift) must be at least bits");
}

bool SwizzleStage::fits(Index width) const noexcept {
  // Step by step, so that no sum overflows.
  const Index most = std::numeric_limits<Index>::max();
  const Index distance = shift_ == std::numeric_limits<Index>::min() ? most : std::abs(shift_);
  return bits_ <= width && base_ <= width - bits_ && distance <= width - bits_ - base_;
}

Index SwizzleStage::apply(Index ordinal) const noexcept {
  const Index mask = (Index{1} << bits_) - 1;
  const Index source = shift_ > 0 ? base_ + shift_ : base_;
  const Index target = shift_ > 0 ? base_ : base_ - shift_;
  return ordinal ^ (((ordinal >> source) & mask) << target);
}

namespace {

Index checked_domain(const Shape& shape, const std::vector<SwizzleStage>& stages) {
  const Index size = shape.size();
  if (!std::has_single_bit(static_cast<std::uint64_t>(size)))
    raise<ValueError>("Swizzle", "the domain size must be a power of two: got ", size);
  const auto width = static_cast<Index>(std::countr_zero(static_cast<std::uint64_t>(size)));
  for (const SwizzleStage& stage : stages)
    if (!stage.fits(width))
      raise<ValueError>("Swizzle", "the fields of a stage exceed the domain bit width: bits ", stage.bits(),
                        ", base ", stage.base(), ", shift ", stage.shift(), " in ", width, " bits");
  return size;
}

}  // namespace

Swizzle::Swizzle(const Shape& shape, std::vector<SwizzleStage> stages)
    : StoredIndexMap(shape, checked_domain(shape, stages), true), stages_(std::move(stages)) {}

Index Swizzle::index_ordinal(Index ordinal) const {
  for (const SwizzleStage& stage : stages_) ordinal = stage.apply(ordinal);
  return ordinal;
}

Ref<IndexMap> Swizzle::compose_with(const Ref<IndexMap>& inner) const {
  const auto* swizzle = dynamic_cast<const Swizzle*>(inner.get());
  if (swizzle == nullptr || swizzle->codomain_size() != codomain_size()) return nullptr;
  std::vector<SwizzleStage> stages;
  const auto add = [&stages](const std::vector<SwizzleStage>& more) {
    for (const SwizzleStage& stage : more) {
      if (!stages.empty() && stages.back() == stage)
        stages.pop_back();  // a stage undoes itself
      else
        stages.push_back(stage);
    }
  };
  add(swizzle->stages_);
  add(stages_);
  return make_ref<Swizzle>(swizzle->shape(), std::move(stages));
}

// Composition

namespace {

// An innermost map that repeats a value repeats it to the end.
std::optional<bool> chain_injectivity(const std::vector<Ref<IndexMap>>& chain) {
  if (chain.front()->composition_injectivity() == false) return false;
  return all_injective(chain) == true ? std::optional<bool>(true) : std::nullopt;
}

}  // namespace

Composition::Composition(std::vector<Ref<IndexMap>> chain)
    : StoredIndexMap(chain.front()->shape(), chain.back()->codomain_size(), chain_injectivity(chain)),
      chain_(std::move(chain)) {}

const std::vector<Ref<IndexMap>>& Composition::chain() const {
  if (chain_.empty()) raise_taken_apart("IndexMap");
  return chain_;
}

Index Composition::index_ordinal(Index ordinal) const {
  for (const Ref<IndexMap>& map : chain()) ordinal = map->index_ordinal(ordinal);
  return ordinal;
}

void Composition::visit_references(ReferenceVisitor& visitor) const {
  for (const Ref<IndexMap>& map : chain_) visitor.visit(map);
}

void Composition::drop_references() noexcept { std::exchange(chain_, {}).clear(); }

}  // namespace orlop::inline v0
