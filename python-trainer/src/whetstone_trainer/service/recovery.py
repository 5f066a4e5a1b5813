# SPDX-License-Identifier: Apache-2.0
"""The newest checkpoint that is whole: in the run folder, or in the object store where the job has one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from whetstone.trainer.v1 import trainer_pb2 as wire

from whetstone_trainer.contract.errors import TrainerError
from whetstone_trainer.service.configuring import RESTORING, ReadShare
from whetstone_trainer.service.step import OnProgress
from whetstone_trainer.weights.run_folder import RunFolder
from whetstone_trainer.weights.stored_run import StoredRun

log = logging.getLogger("whetstone_trainer")


class Recovery:
    """Of one run."""

    def __init__(
        self,
        folder: RunFolder,
        stored: StoredRun | None,
        restore: Callable[[int, OnProgress], None],
        notices: list[wire.Notice],
    ) -> None:
        """`restore` makes a checkpoint of the run folder the present. What people should know is added to `notices`."""
        self._folder, self._stored, self._restore, self._notices = folder, stored, restore, notices

    @property
    def has_any(self) -> bool:
        """Whether there ever was a checkpoint."""
        return bool(self._steps() or self._folder.damaged())

    def recover(self, on_progress: OnProgress) -> bool:
        """False: there never was a checkpoint. Raises TrainerError where none is whole.

        Damaged ones are set aside once a whole one is found; without one all stay as they are, and nothing starts over.
        """
        faults: dict[int, TrainerError] = {}
        for step in reversed(self._steps()):
            try:
                self._restore_anywhere(step, on_progress)
            except TrainerError as error:
                if error.code != "DATA_LOSS":
                    raise
                faults[step] = error
            else:
                self._set_aside(faults, step)
                if self._stored is not None:
                    self._stored.put_weights(step)  # Engines may need what is missing of it.
                return True
        damaged = [str(fault) for fault in faults.values()] or [f"{path} is damaged" for path in self._folder.damaged()]
        if damaged:
            raise _none_whole(self._folder.root, damaged)
        return False

    def bring_window(self, step: int, max_policy_lag: int) -> None:
        """From the store, versions before this one whose log-probabilities may have to be computed again."""
        for version in range(max(1, step - max_policy_lag), step):
            if self._stored is None or self._folder.weights(version).is_dir():
                continue
            try:
                self._stored.bring_weights(version)
            except TrainerError as error:
                # Its tokens are then not checked, as where a version is gone.
                log.warning("stored_weights_damaged", extra={"version": version, "fault": str(error)})

    def _steps(self) -> list[int]:
        """Steps with a checkpoint, here or in the store, ascending."""
        return sorted({*self._folder.steps(), *(self._stored.steps() if self._stored else ())})

    def _restore_anywhere(self, step: int, on_progress: OnProgress) -> None:
        """From the run folder; from the store what is missing or damaged there."""
        fault: TrainerError | None = None
        stored = self._stored
        if step in self._folder.steps():
            try:
                return self._restore(step, on_progress)
            except TrainerError as error:
                if error.code != "DATA_LOSS" or stored is None or step not in stored.steps():
                    raise
                fault = error
        assert stored is not None, "a step that is not in the folder is in the store"
        read = ReadShare(RESTORING, stored.bytes_of(step), on_progress)
        if not stored.bring_weights(step, read):
            raise TrainerError("DATA_LOSS", f"{stored.url}/v{step} is missing")
        stored.bring_checkpoint(step, read)
        self._restore(step, on_progress)
        if fault is not None:
            message = f"The checkpoint of step {step} was damaged on disk: {fault}. Its copy in the store is used."
            log.warning("checkpoint_brought", extra={"step": step, "fault": str(fault)})
            self._tell(message)

    def _set_aside(self, faults: Mapping[int, TrainerError], used: int) -> None:
        """Those on disk. One in the store stays until the step is done again, and takes its place."""
        on_disk = self._folder.steps()
        for step, fault in faults.items():
            kept = f"; the damaged one is kept in {self._folder.set_aside(step)}" if step in on_disk else ""
            message = (
                f"The checkpoint of step {step} is damaged: {fault}. Training goes on from that of step {used}{kept}."
            )
            log.warning("checkpoint_damaged", extra={"step": step, "used": used, "fault": str(fault)})
            self._tell(message)

    def _tell(self, message: str) -> None:
        self._notices.append(wire.Notice(reason="CheckpointDamaged", message=message))


def _none_whole(root: Path, damaged: Sequence[str]) -> TrainerError:
    return TrainerError(
        "DATA_LOSS",
        f"no checkpoint in {root / 'checkpoints'} is whole: {'; '.join(damaged)}. "
        "Put back a whole copy of one of them, or submit the job under another name to start over.",
    )
