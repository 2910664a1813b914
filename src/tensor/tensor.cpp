// Tensor: validation of placements and representations, element access, and the counted object.
#include "orlop/tensor/tensor.hpp"

#include <algorithm>

#include "orlop/base/checked.hpp"
#include "orlop/dtype/compound.hpp"

namespace orlop::inline v0 {

void VersionToken::add(Entry entry) {
  if (first_.first == nullptr) {
    first_ = entry;
    return;
  }
  const auto same = [&](const Entry& known) { return known.first == entry.first; };
  if (!same(first_) && std::none_of(rest_.begin(), rest_.end(), same)) rest_.push_back(entry);
}

std::vector<VersionToken::Entry> VersionToken::entries() const {
  std::vector<Entry> all;
  if (first_.first != nullptr) all.push_back(first_);
  all.insert(all.end(), rest_.begin(), rest_.end());
  return all;
}

void validate_placement(const Carrier& carrier, Index offset, const Layout& layout) {
  if (offset < 0) raise<ValueError>("Tensor", "Tensor offset must be non-negative: got ", offset);
  const Index end = checked_add(offset, layout.cosize(), "Tensor");
  if (end > carrier.size())
    raise<ValueError>("Tensor", "Tensor storage exceeds carrier size: offset ", offset, " plus span ",
                      layout.cosize(), " needs ", end, " slots; the carrier has ", carrier.size());
}

namespace {

/// The storage dtypes of a logical dtype, level by level (M402).
std::vector<const DType*> storage_schema(const DType& logical) {
  if (logical.is_compound()) {
    std::vector<const DType*> planes;
    for (const auto& plane : static_cast<const CompoundDType&>(logical).simple_types())
      planes.push_back(plane.get());
    return planes;
  }
  if (logical.is_category() && !logical.is_opaque_storage())
    raise<ValueError>("Tensor", "an abstract dtype category has no storage: ", logical.name(),
                      "; use a simple dtype under it");
  return {&logical};
}

const Layout& placement(const TensorRepresentation& representation, Index level) {
  return representation.subtensors[static_cast<std::size_t>(level)].layout;
}

}  // namespace

RepresentationContext::RepresentationContext(const TensorRepresentation& representation)
    : representation_(representation) {
  for (const Subtensor& plane : representation.subtensors) storage_dtypes_.emplace_back(plane.dtype);
}

Index RepresentationContext::adjacent_count() const {
  return static_cast<Index>(representation_.adjacent_layouts.size());
}

Index RepresentationContext::level_size(Index level) const {
  return placement(representation_, level).size();
}

std::optional<Index> RepresentationContext::uniform_preimage_extent(Index edge) const {
  const Layout& adjacent = representation_.adjacent_layouts[static_cast<std::size_t>(edge)];
  return adjacent.uniform_preimage_extent(placement(representation_, edge + 1).shape());
}

Tensor::Tensor(Ref<Carrier> carrier, Index offset, Layout layout) {
  if (!carrier) raise<TypeError>("Tensor", "carrier must be a Carrier: got a null handle");
  carrier->require_live();
  if (storage_schema(carrier->dtype()).size() != 1)
    raise<ValueError>("Tensor", "a compound dtype needs one carrier per plane: ", carrier->dtype().name());
  validate_placement(*carrier, offset, layout);
  object_ = make_ref<TensorObject>(std::move(carrier), offset, std::move(layout));
}

Tensor Tensor::trusted(Ref<Carrier> carrier, Index offset, Layout layout) {
  return Tensor(make_ref<TensorObject>(std::move(carrier), offset, std::move(layout)));
}

void validate_representation(const TensorRepresentation& representation) {
  const DType& logical = *representation.logical_dtype;
  const std::vector<const DType*> schema = storage_schema(logical);
  const auto& planes = representation.subtensors;
  const auto& edges = representation.adjacent_layouts;
  if (planes.size() != schema.size())
    raise<ValueError>(logical.name(), "a representation requires ", schema.size(), " subtensors: got ",
                      planes.size());
  if (edges.size() != schema.size() - 1)
    raise<ValueError>(logical.name(), "a representation requires ", schema.size() - 1,
                      " adjacent layouts: got ", edges.size());
  for (std::size_t i = 0; i < planes.size(); ++i) {
    const Subtensor& plane = planes[i];
    if (plane.dtype != schema[i])
      raise<ValueError>(logical.name(), "subtensor ", i, " must use storage dtype ", schema[i]->name(),
                        ": got ", plane.dtype->name());
    plane.carrier->require_live();
    if (&plane.carrier->dtype() != plane.dtype)
      raise<ValueError>(logical.name(), "subtensor ", i, " carrier dtype must be identical to ",
                        plane.dtype->name(), ": got ", plane.carrier->dtype().name());
    validate_placement(*plane.carrier, plane.offset, plane.layout);
    if (plane.carrier->carrier_class() != planes.front().carrier->carrier_class())
      raise<TypeError>(logical.name(), "all subtensors must live on one exact class: level 0 is on ",
                       planes.front().carrier->carrier_class(), ", level ", i, " on ",
                       plane.carrier->carrier_class());
  }
  for (std::size_t i = 0; i < edges.size(); ++i) {
    if (edges[i].shape() != planes[i].layout.shape())
      raise<ValueError>(logical.name(), "adjacent layout ", i, " must have the source placement shape ",
                        planes[i].layout.shape(), ": got ", edges[i].shape());
    const Index cardinality = planes[i + 1].layout.size();
    if (edges[i].cosize() > cardinality)
      raise<ValueError>(logical.name(), "adjacent layout ", i, " reaches ", edges[i].cosize() - 1,
                        ", outside level ", i + 1, " shape cardinality ", cardinality);
  }
  const RepresentationContext context(representation);
  for (const auto& rule : logical.representation_rules()) rule->validate(context);
}

Tensor Tensor::from_representation(TensorRepresentation representation) {
  validate_representation(representation);
  auto& planes = representation.subtensors;
  Tensor tensor = trusted(planes.front().carrier, planes.front().offset, planes.front().layout);
  TensorObject& object = *tensor.object_;
  object.dtype_ = representation.logical_dtype;
  if (planes.size() > 1)
    object.deeper_ = std::make_unique<TensorObject::Deeper>(
        TensorObject::Deeper{{planes.begin() + 1, planes.end()}, std::move(representation.adjacent_layouts)});
  return tensor;
}

TensorRepresentation Tensor::representation() const {
  const TensorObject& object = *object_;
  TensorRepresentation result{object.dtype_, {}, {}};
  result.subtensors.push_back({&object.carrier_->dtype(), object.carrier_, object.offset_, object.layout_});
  if (object.deeper_) {
    const auto& deeper = *object.deeper_;
    result.subtensors.insert(result.subtensors.end(), deeper.subtensors.begin(), deeper.subtensors.end());
    result.adjacent_layouts = deeper.adjacent_layouts;
  }
  return result;
}

VersionToken Tensor::version_token() const {
  const TensorObject& object = *object_;
  VersionToken token({object.carrier_.get(), object.carrier_->version()});
  if (object.deeper_)
    for (const Subtensor& plane : object.deeper_->subtensors)
      token.add({plane.carrier.get(), plane.carrier->version()});
  return token;
}

bool Tensor::is_mutable() const { return is_single_subtensor() && carrier()->is_mutable(); }

void Tensor::require_single_subtensor(std::string_view reason) const {
  if (is_single_subtensor()) return;
  raise<NotImplementedError>("Tensor", "Multi-subtensor Tensor ", reason, " is not supported: the dtype is ",
                             dtype().name(), "; work on its planes one by one");
}

Scalar Tensor::at(const Coordinate& key) const {
  require_single_subtensor("indexing");
  return carrier()->at(offset() + layout().index(key));
}

void Tensor::set(const Coordinate& key, const Scalar& value) const {
  require_single_subtensor("mutation");
  carrier()->store(offset() + layout().index(key), value);
}

TensorObject::~TensorObject() {
  release_iteratively(std::move(autograd_node));
  release_iteratively(gradient.detach());
}

void TensorObject::visit_references(ReferenceVisitor& visitor) const {
  visitor.visit(carrier_);
  visitor.visit(autograd_node);
  visitor.visit(gradient.ref());
  if (deeper_)
    for (const Subtensor& plane : deeper_->subtensors) visitor.visit(plane.carrier);
}

void TensorObject::drop_references() noexcept {
  release_iteratively(std::move(autograd_node));
  release_iteratively(gradient.detach());
  // The carrier stays: a tensor whose carrier is gone could only crash. Cycles run through nodes and
  // gradients.
}

}  // namespace orlop::inline v0
