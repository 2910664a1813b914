// The routes between shipped carriers that know each other: the physical span in one bulk transfer (S417).
//
// Protocol: as orlop/movement/move.hpp. The file's bytes are written in place, so a failed transfer may leave
// a prefix, which the destination's version tells; a full disk before the first byte changes nothing.
#pragma once

#include "orlop/movement/move.hpp"

namespace orlop::inline v0 {

/// Slots `offset` to `offset + span` of the CPU become slots 0 to `span` of the file.
class ORLOP_API CpuToFileBackedMoveOperation : public MoveOperation {
 public:
  ~CpuToFileBackedMoveOperation() override;
  [[nodiscard]] CarrierClass source_class() const override;
  [[nodiscard]] CarrierClass destination_class() const override;
  [[nodiscard]] std::string implementation_name() const override { return "CpuToFileBackedMoveOperation"; }

 protected:
  void copy(const Tensor& tensor, Carrier& destination, const Tensor& output, Index element_count) override;
};

/// Slots `offset` to `offset + span` of the file become slots 0 to `span` of the CPU.
class ORLOP_API FileBackedToCpuMoveOperation : public MoveOperation {
 public:
  ~FileBackedToCpuMoveOperation() override;
  [[nodiscard]] CarrierClass source_class() const override;
  [[nodiscard]] CarrierClass destination_class() const override;
  [[nodiscard]] std::string implementation_name() const override { return "FileBackedToCpuMoveOperation"; }

 protected:
  void copy(const Tensor& tensor, Carrier& destination, const Tensor& output, Index element_count) override;
};

/// Slots `offset` to `offset + span` of the CPU become slots 0 to `span` of the block device carrier, whose
/// version advances before the first byte can change, and stays so.
class ORLOP_API CpuToBlockDeviceMoveOperation : public SpanMoveOperation {
 public:
  ~CpuToBlockDeviceMoveOperation() override;
  [[nodiscard]] CarrierClass source_class() const override;
  [[nodiscard]] CarrierClass destination_class() const override;
  [[nodiscard]] std::string implementation_name() const override { return "CpuToBlockDeviceMoveOperation"; }

 protected:
  void copy(const Tensor& tensor, Carrier& destination, const Tensor& output, Index element_count) override;
};

/// The way back, likewise.
class ORLOP_API BlockDeviceToCpuMoveOperation : public SpanMoveOperation {
 public:
  ~BlockDeviceToCpuMoveOperation() override;
  [[nodiscard]] CarrierClass source_class() const override;
  [[nodiscard]] CarrierClass destination_class() const override;
  [[nodiscard]] std::string implementation_name() const override { return "BlockDeviceToCpuMoveOperation"; }

 protected:
  void copy(const Tensor& tensor, Carrier& destination, const Tensor& output, Index element_count) override;
};

/// Slots `offset` to `offset + span` of the CPU become slots 0 to `span` of the Metal carrier, by one copy in
/// the memory that the device shares.
class ORLOP_API CpuToMetalMoveOperation : public SpanMoveOperation {
 public:
  ~CpuToMetalMoveOperation() override;
  [[nodiscard]] CarrierClass source_class() const override;
  [[nodiscard]] CarrierClass destination_class() const override;
  [[nodiscard]] std::string implementation_name() const override { return "CpuToMetalMoveOperation"; }
};

/// The way back, likewise.
class ORLOP_API MetalToCpuMoveOperation : public SpanMoveOperation {
 public:
  ~MetalToCpuMoveOperation() override;
  [[nodiscard]] CarrierClass source_class() const override;
  [[nodiscard]] CarrierClass destination_class() const override;
  [[nodiscard]] std::string implementation_name() const override { return "MetalToCpuMoveOperation"; }
};

/// Between two Metal carriers, likewise.
class ORLOP_API MetalToMetalMoveOperation : public SpanMoveOperation {
 public:
  ~MetalToMetalMoveOperation() override;
  [[nodiscard]] CarrierClass source_class() const override;
  [[nodiscard]] CarrierClass destination_class() const override;
  [[nodiscard]] std::string implementation_name() const override { return "MetalToMetalMoveOperation"; }
};

}  // namespace orlop::inline v0
