"""The effect of a hand-built DAG's sources and sinks on the guarantee of its job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from runnel.errors import ProgrammingError
from runnel.named_jobs.guarantees import weaker
from runnel.processor import Guarantee

if TYPE_CHECKING:
    from runnel.dag import DAG
    from runnel.runtime.tasklets.processor_tasklet import ProcessorTasklet


def check_sources(dag: DAG, tasklets: Sequence[ProcessorTasklet]) -> None:
    """ProgrammingError if a source neither stores its position in snapshots nor prevents them:
    after a failure it would emit rows again that the state of other vertices contains already."""
    for tasklet in tasklets:
        if (
            not dag.inputs(tasklet.vertex)
            and tasklet.stateful is None
            and not tasklet.processor.holds_snapshots
        ):
            raise ProgrammingError(
                f'the source "{tasklet.vertex}" has no position, so a job with a guarantee '
                "can't resume from it",
                hint=(
                    "store the position in save_snapshot and read it in restore_snapshot; or set "
                    "holds_snapshots to True, so that snapshots begin when the source has ended"
                ),
            )


def weakest(dag: DAG, tasklets: Sequence[ProcessorTasklet], guarantee: str) -> str:
    """The guarantee from end to end: at least once if a sink does not commit with snapshots."""
    has_plain_sink = any(
        not dag.outputs(item.vertex) and item.transactional is None for item in tasklets
    )
    if not has_plain_sink or guarantee not in {item.value for item in Guarantee}:
        return guarantee
    return str(weaker(Guarantee(guarantee), Guarantee.AT_LEAST_ONCE))
