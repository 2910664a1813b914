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
  const Index slots = carrier.size();
  if (layout.cosize() > slots - offset)
    raise<ValueError>("Tensor", "Tensor storage exceeds carrier size: offset ", offset, " plus span ",
                      layout.cosize(), "; the carrier has ", slots, " slots");
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

RepresentationCheck::RepresentationCheck(const DType& logical_dtype, std::size_t subtensors,
                                         std::size_t adjacent_layouts)
    : logical_(logical_dtype), schema_(storage_schema(logical_dtype)) {
  if (subtensors != schema_.size())
    raise<ValueError>(logical_.name(), "a representation requires ", schema_.size(), " subtensors: got ",
                      subtensors);
  if (adjacent_layouts != schema_.size() - 1)
    raise<ValueError>(logical_.name(), "a representation requires ", schema_.size() - 1,
                      " adjacent layouts: got ", adjacent_layouts);
}

void RepresentationCheck::check_dtype(std::size_t level, const DType& dtype) const {
  if (&dtype != schema_[level])
    raise<ValueError>(logical_.name(), "subtensor ", level, " must use storage dtype ",
                      schema_[level]->name(), ": got ", dtype.name());
}

void RepresentationCheck::check_carrier(std::size_t level, const Carrier& carrier) const {
  carrier.require_live();
  if (&carrier.dtype() != schema_[level])
    raise<ValueError>(logical_.name(), "subtensor ", level, " carrier dtype must be identical to ",
                      schema_[level]->name(), ": got ", carrier.dtype().name());
}

void RepresentationCheck::check_placement(std::size_t level, const Subtensor& subtensor,
                                          const Subtensor& first) const {
  validate_placement(*subtensor.carrier, subtensor.offset, subtensor.layout);
  const CarrierClass expected = first.carrier->carrier_class();
  const CarrierClass actual = subtensor.carrier->carrier_class();
  if (actual != expected)
    raise<TypeError>(logical_.name(), "all subtensors must live on one exact class: level 0 is on ", expected,
                     ", level ", level, " on ", actual);
}

void RepresentationCheck::check_adjacent(std::size_t edge, const Layout& adjacent, const Layout& source,
                                         const Layout& target) const {
  if (adjacent.shape() != source.shape())
    raise<ValueError>(logical_.name(), "adjacent layout ", edge, " must have the source placement shape ",
                      source.shape(), ": got ", adjacent.shape());
  if (adjacent.cosize() > target.size())
    raise<ValueError>(logical_.name(), "adjacent layout ", edge, " reaches ", adjacent.cosize() - 1,
                      ", outside level ", edge + 1, " shape cardinality ", target.size());
}

void RepresentationCheck::check_rules(const TensorRepresentation& representation) {
  const RepresentationContext context(representation);
  for (const auto& rule : representation.logical_dtype->representation_rules()) rule->validate(context);
}

void validate_representation(const TensorRepresentation& representation) {
  const auto& planes = representation.subtensors;
  const auto& edges = representation.adjacent_layouts;
  const RepresentationCheck check(*representation.logical_dtype, planes.size(), edges.size());
  for (std::size_t i = 0; i < planes.size(); ++i) {
    check.check_dtype(i, *planes[i].dtype);
    check.check_carrier(i, *planes[i].carrier);
    check.check_placement(i, planes[i], planes.front());
  }
  for (std::size_t i = 0; i < edges.size(); ++i)
    check.check_adjacent(i, edges[i], planes[i].layout, planes[i + 1].layout);
  RepresentationCheck::check_rules(representation);
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
  const TensorObject& object = require_object();
  TensorRepresentation result{object.dtype_, {}, {}};
  result.subtensors.push_back({&object.carrier_->dtype(), object.carrier_, object.offset_, object.layout_});
  if (object.deeper_) {
    const auto& deeper = *object.deeper_;
    result.subtensors.insert(result.subtensors.end(), deeper.subtensors.begin(), deeper.subtensors.end());
    result.adjacent_layouts = deeper.adjacent_layouts;
  }
  return result;
}

void Tensor::raise_null() {
  raise<TypeError>("Tensor",
                   "a Tensor is needed: got a null handle; one that was default-constructed or "
                   "moved from, and a gradient that is missing, hold none");
}

VersionToken Tensor::version_token() const {
  const TensorObject& object = require_object();
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

namespace {

/// The first and last three values where reading them moves nothing.
std::string some_values(const Tensor& tensor) {
  const Carrier& carrier = *tensor.carrier();
  if (carrier.is_released()) return "released";
  if (!tensor.is_single_subtensor() || carrier.host_data() == nullptr) return "…";
  const Index size = tensor.size();
  std::string values;
  for (Index i = 0; i < size; ++i) {
    if (size > 6 && i == 3) {
      values += ", …";
      i = size - 3;
    }
    values += i == 0 ? "" : ", ";
    values += carrier.at(tensor.offset() + tensor.layout().index_ordinal(i)).to_string();
  }
  return values;
}

}  // namespace

std::string Tensor::to_string() const {
  if (!object_) return "Tensor(none)";
  return text("Tensor(", some_values(*this), ", shape=", orlop::to_string(layout().shape().top_level()),
              ", strides=", orlop::to_string(layout().stride().top_level()), ", dtype=", dtype().name(),
              ", carrier=", carrier_type(), ", residency=", carrier()->residency_word(),
              ", version=", version(), ")");
}

}  // namespace orlop::inline v0
