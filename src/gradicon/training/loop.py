"""The loop: load, step, look, keep. It holds everything that changes while a run runs."""

import time
from dataclasses import replace
from pathlib import Path

import torch
from lightning_fabric import Fabric

from gradicon.core.acceleration import is_wanted, use_half_precision
from gradicon.models import Model, Training
from gradicon.training.batch_norm import share_statistics
from gradicon.training.batches import Batches, Shelf
from gradicon.training.config import Recipe
from gradicon.training.dataset import Dataset
from gradicon.training.execute import EagerExecutor, Executor
from gradicon.training.finite import LossWatch, refuse_non_finite
from gradicon.training.pairs import Pairs, owned
from gradicon.training.processes import shared
from gradicon.training.runlog import Report, RunLog
from gradicon.training.stages import (
    adam,
    first_model,
    new_model,
    restore,
    restored_model,
    set_learning_rate,
)
from gradicon.training.state import (
    BEST,
    FINAL,
    LAST,
    STAGE1,
    Checkpoint,
    write_checkpoint,
    write_model,
)
from gradicon.training.step import Scalars, TrainingStep, similarity_of
from gradicon.training.stopping import Stop
from gradicon.training.validate import pictures, score, validate


class Loop:
    """A run in memory.

    Args:
        fabric: the processes that share the work.
        recipe, dataset: what to do, and with what.
        run: the folder of the run.
        begin: where to go on; or a trained model to start from; or neither, and the weights are
            fresh.
        about: what the models that are written say of their training, so far as it is known.
    """

    def __init__(
        self,
        fabric: Fabric,
        recipe: Recipe,
        dataset: Dataset,
        run: Path,
        begin: Checkpoint | Model | None,
        about: Training,
    ) -> None:
        self.fabric = fabric
        self.recipe = recipe
        self.dataset = dataset
        self.run_folder = run
        self.about = about
        checkpoint = begin if isinstance(begin, Checkpoint) else None
        self.shelf = Shelf(dataset, fabric.device)
        samples = owned(recipe.training.batch_size, fabric.global_rank, fabric.world_size)
        self.batches = Batches(recipe, self.shelf, Pairs.of(dataset, recipe.training.seed), samples)
        self.watch = LossWatch(fabric.device, fabric)
        self.step = 0 if checkpoint is None else checkpoint.step
        self.best = None if checkpoint is None else checkpoint.best
        self._began = time.monotonic() - (0 if checkpoint is None else checkpoint.seconds)
        self._logged = self.step, time.monotonic()
        self.model: Model
        self.optimizer: torch.optim.Adam
        self.executor: Executor
        if checkpoint is None:
            self._take(first_model(recipe, begin if isinstance(begin, Model) else None))
        else:
            self._take(restored_model(recipe, checkpoint, str(run / LAST)))
            restore(self.optimizer, checkpoint.optimizer)

    def run(self, log: RunLog | None, stop: Stop) -> str:
        """Train to the end, or until there is a reason to stop, which is returned.

        The order within a step is load, step, look, keep: what is not finite is found before
        anything is written. Only the first process has a log; the others pass None.
        """
        how = self.recipe.training
        if self.step == 0:
            self._keep()
        while self.step < how.steps:
            self.step += 1
            looking = self._due(how.log_every)
            judging = self._due(how.validate_every) and bool(self.dataset.validation_pairs)
            inputs = self.batches.load(self.step)
            set_learning_rate(self.optimizer, how.learning_rate_of(self.step))
            scalars = self.executor.run_step(self.step, inputs, folds=looking)
            if looking or judging or self.watch.sees_at_once:
                self._refuse_non_finite()
            if looking or judging:
                self._tell(log, scalars, self._judge() if judging else {})
            if log is not None and self._due(how.image_every):
                log.pictures(self.step, pictures(self.model, self.shelf, self._shown()))
            if self.step == how.stage1_steps:
                self._end_stage1()
            if self._due(how.checkpoint_every):
                self._keep()
            if reason := self._reason(stop, looking=looking):
                self._keep()
                return reason
        self._write_model(FINAL)
        return ""

    def _take(self, model: Model) -> None:
        """Make a network the one that trains, with a fresh optimizer."""
        how = self.recipe.training
        device = self.fabric.device
        if self.fabric.world_size > 1:
            share_statistics(model)
        if how.precision == "bf16-mixed":
            use_half_precision(model, device)
        self.model = model.train().to(device)
        self.optimizer = adam(self.model, how.learning_rate)
        module = shared(self.fabric, TrainingStep(self.model, self.recipe.loss))
        eager = EagerExecutor(module, self.optimizer, self.fabric.backward, self.watch)
        self.executor = eager
        if is_wanted() and device.type == "cuda" and self.fabric.world_size == 1:
            from gradicon.training.graphs import GraphedExecutor  # here: it needs gradicon.fast

            self.executor = GraphedExecutor(eager)

    def _due(self, every: int) -> bool:
        how = self.recipe.training
        return self.step % every == 0 or self.step in (how.stage1_steps, how.steps)

    def _end_stage1(self) -> None:
        self._refuse_non_finite(weights=True)
        self._write_model(STAGE1)
        if self.recipe.training.stage2_steps:
            self._take(new_model(self.recipe, 2, before=self.model))

    def _refuse_non_finite(self, *, weights: bool = False) -> None:
        network = self.model if weights else None
        refuse_non_finite(self.watch, self.batches, self.step, network)

    def _judge(self) -> dict[str, float]:
        """Validate, and keep the network if it is the best so far. Only the first process does."""
        self._refuse_non_finite(weights=True)
        found: dict[str, float] = {}
        if self.fabric.is_global_zero:
            found = validate(self.model, self.shelf, similarity_of(self.recipe.loss))
            reached = score(found)
            if reached is not None and (self.best is None or reached > self.best):
                self.best = reached
                self._write_model(BEST)
        self.fabric.barrier()
        return found

    def _tell(self, log: RunLog | None, scalars: Scalars, validation: dict[str, float]) -> None:
        """Log the scalars of the last step, as means over all processes, and what validation found.

        Every process must call this, since all of them make the means.
        """
        means = self.fabric.all_reduce(
            torch.stack([value.float() for value in scalars.values()]), reduce_op="mean"
        )
        assert isinstance(means, torch.Tensor)
        values: list[float] = means.tolist()  # waits for the device, so that the time is a step's
        before, then = self._logged
        now = time.monotonic()
        self._logged = self.step, now
        if log is not None:
            rate = (self.step - before) / max(now - then, 1e-9)
            told = dict(zip(scalars, values, strict=True)) | validation
            log.scalars(
                Report(self.model.config.stage, self.step, self.recipe.training.steps, rate, told)
            )

    def _reason(self, stop: Stop, *, looking: bool) -> str:
        """Why to stop, if at all.

        Several processes ask the first one, so that all stop at the same step, and only on the
        steps on which they talk anyway.
        """
        if self.step == self.recipe.training.steps:
            return ""
        if self.fabric.world_size == 1:
            return stop.reason
        return str(self.fabric.broadcast(stop.reason)) if looking else ""

    def _shown(self) -> tuple[int, int]:
        return (
            self.dataset.validation_pairs[0]
            if self.dataset.validation_pairs
            else self.batches.pairs.draw(0, 0)
        )

    def _keep(self) -> None:
        self._refuse_non_finite(weights=True)
        if self.fabric.is_global_zero:
            checkpoint = Checkpoint(
                stage=self.model.config.stage,
                step=self.step,
                best=self.best,
                seconds=self.seconds,
                recipe=self.about.recipe_sha256,
                dataset=self.dataset.sha256,
                data=str(self.dataset.folder.resolve()),
                model=self.model.state_dict(),
                optimizer=self.optimizer.state_dict(),
                start=self.about.started_from,
            )
            write_checkpoint(self.run_folder, checkpoint)
        self.fabric.barrier()

    @property
    def seconds(self) -> float:
        """Of training, over all the times that the run was resumed."""
        return time.monotonic() - self._began

    def _write_model(self, name: str) -> None:
        if not self.fabric.is_global_zero:
            return
        about = replace(
            self.about,
            steps=self.step,
            minutes=round(self.seconds / 60, 1),
            score=self.best,
        )
        preprocessing = self.recipe.preprocessing
        write_model(self.run_folder / name, self.model, preprocessing, about)
