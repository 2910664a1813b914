from orlop._core import BlockDevice as BlockDevice
from orlop._core import BlockDeviceCarrier as BlockDeviceCarrier
from orlop._core import CPU as CPU
from orlop._core import Carrier as Carrier
from orlop._core import DependentCarrier as DependentCarrier
from orlop._core import Evictable as Evictable
from orlop._core import EvictableOperation as EvictableOperation
from orlop._core import FileBacked as FileBacked
from orlop._core import Generic as Generic
from orlop._core import Metal as Metal
from orlop.carriers.dtype import BlockScaledDType as BlockScaledDType
from orlop.carriers.dtype import CompoundDType as CompoundDType
from orlop.carriers.dtype import DType as DType
from orlop.carriers.dtype import DTypeCategory as DTypeCategory
from orlop.carriers.dtype import Level as Level
from orlop.carriers.dtype import LevelExtent as LevelExtent
from orlop.carriers.dtype import RepresentationRule as RepresentationRule
from orlop.carriers.dtype import RepresentationValidationContext as RepresentationValidationContext
from orlop.carriers.dtype import SimpleDType as SimpleDType
from orlop.carriers.dtype import SymbolicBits as SymbolicBits
from orlop.carriers.dtype import Whole as Whole
from orlop.carriers.dtype import WholeExtent as WholeExtent
from orlop.carriers.tiled_evictable import TiledEvictable as TiledEvictable

__all__: list[str]
