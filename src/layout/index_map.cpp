// IndexMap: evaluation by coordinate, and composition with its opaque fallback (M315, M319).
#include "orlop/layout/index_map.hpp"

#include "nest.hpp"
#include "orlop/layout/maps.hpp"

namespace orlop::inline v0 {

namespace {

void append_links(std::vector<Ref<IndexMap>>& chain, const Ref<IndexMap>& map) {
  if (const auto* composition = dynamic_cast<const Composition*>(map.get()))
    chain.insert(chain.end(), composition->chain().begin(), composition->chain().end());
  else
    chain.push_back(map);
}

}  // namespace

void detail::check_composable(Index inner_codomain, Index outer_size) {
  if (inner_codomain > outer_size)
    raise<ValueError>("compose", "the inner codomain exceeds the outer domain: ", inner_codomain, " > ",
                      outer_size, "; the outer map must have an ordinal for each inner value");
}

Index IndexMap::index(const Coordinate& coordinate) const {
  const Shape shape = this->shape();
  if (!shape.leaf_coordinates(coordinate))
    raise<ValueError>("IndexMap", "Key is not in domain of shape: ", detail::misfit_text(shape, coordinate));
  return index_ordinal(shape.encode(coordinate));
}

Ref<IndexMap> IndexMap::compose_with(const Ref<IndexMap>&) const { return nullptr; }

Ref<IndexMap> IndexMap::compose(const Ref<IndexMap>& outer, const Ref<IndexMap>& inner) {
  detail::check_composable(inner->codomain_size(), outer->domain_size());
  if (inner->composition_is_identity() && inner->shape() == outer->shape()) return outer;
  if (outer->composition_is_identity() && outer->domain_size() == inner->codomain_size()) return inner;
  if (Ref<IndexMap> closed = outer->compose_with(inner)) return closed;
  return compose_opaquely(outer, inner);
}

Ref<IndexMap> IndexMap::compose_opaquely(const Ref<IndexMap>& outer, const Ref<IndexMap>& inner) {
  std::vector<Ref<IndexMap>> chain;
  append_links(chain, inner);
  append_links(chain, outer);
  return make_ref<Composition>(std::move(chain));
}

StoredIndexMap::StoredIndexMap(Shape shape, Index codomain_size, std::optional<bool> is_injective)
    : shape_(std::move(shape)), codomain_size_(codomain_size), is_injective_(is_injective) {
  if (codomain_size < 1) raise<ValueError>("IndexMap", "codomain_size must be positive: got ", codomain_size);
  (void)shape_.size();  // an overflow is the shape's error
}

}  // namespace orlop::inline v0
