from orlop.profiler import Profiler as Profiler
