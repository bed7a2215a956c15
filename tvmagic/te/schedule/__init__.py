"""Schedules of tensor expressions: stages and relations, bounds inference, ScheduleOps.

The names are those of `tvm.te.schedule`.
"""

from tvmagic.ir import Buffer, IterVar
from tvmagic.te.exact.used_elements import StageWaste
from tvmagic.te.exact.waste_report import waste_report
from tvmagic.te.post_process import schedule_postproc_to_primfunc as SchedulePostProcToPrimFunc
from tvmagic.te.post_process import verify_compact_buffer as VerifyCompactBuffer
from tvmagic.te.schedule.auto_inline import auto_inline_broadcast as AutoInlineBroadcast
from tvmagic.te.schedule.auto_inline import auto_inline_elem_wise as AutoInlineElemWise
from tvmagic.te.schedule.auto_inline import auto_inline_injective as AutoInlineInjective
from tvmagic.te.schedule.graph import create_attach_path as CreateAttachPath
from tvmagic.te.schedule.graph import create_read_graph as CreateReadGraph
from tvmagic.te.schedule.graph import post_dfs_order as PostDFSOrder
from tvmagic.te.schedule.graph import scan_get_body as ScanGetBody
from tvmagic.te.schedule.infer_bound import infer_bound as InferBound
from tvmagic.te.schedule.relations import Fuse, Rebase, Singleton, Split, Transform
from tvmagic.te.schedule.scan import ScanFixPointAnalysis
from tvmagic.te.schedule.schedule import Schedule, create_schedule
from tvmagic.te.schedule.schedule_ops import schedule_ops as ScheduleOps
from tvmagic.te.schedule.stage import AttachType, IterVarAttr, Stage
