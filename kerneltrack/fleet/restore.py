"""Models that go on from snapshots, many at once; one model is m = 1."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kerneltrack import codec
from kerneltrack.errors import ConfigError, DataError
from kerneltrack.fleet.companions import Arrays, Companion, FirstRows
from kerneltrack.fleet.model import Model, Work
from kerneltrack.fleet.models import Models
from kerneltrack.fleet.windows import MeasuredWindows
from kerneltrack.monitor import reference
from kerneltrack.registry import get_tracker
from kerneltrack.snapshots.header import read_about
from kerneltrack.snapshots.references import companions_of, reference_of


def take_over(
    work: Work, key: str, data: bytes, name: str, before: Model | None, rows: int
) -> Model:
    """Make the working state of a model that goes on with a snapshot's tracker.

    All that goes along with it begins anew; the reference by the snapshot's scale, unless it is
    given.

    Args:
        work: What is done with its rows.
        key: Its ID.
        data: The snapshot.
        name: Where it came from, for errors.
        before: What the model was; None before its first rows. Its times are kept.
        rows: Index of its next row.

    Raises:
        DataError: for bytes that are no tracker's state.
    """
    state = codec.decode(data, name).state
    times = (None, None) if before is None else (before.time, before.until)
    (model,) = _begun(work, [key], [state])
    return model._replace(time=times[0], until=times[1], before=rows - int(state.n))


def frozen(
    data: bytes, name: str, measure: MeasuredWindows | None = None
) -> tuple[Work, Model, int | None]:
    """Make of a snapshot a model that learns nothing, and what is done with its rows.

    They may be of any time. Windows begin anew; the evidence of a reference that was `ready` goes
    on, and one that was not is left out.

    Args:
        data: The snapshot.
        name: Where it came from, for errors.
        measure: Mismatch of windows, if asked for.

    Returns:
        What is done with its rows, the model, and the time of the newest row that it has learned
        from, ns; None without times.

    Raises:
        DataError: for bytes that are no tracker's state, or damaged ones.
    """
    snapshot = codec.decode(data, name)
    about = read_about(snapshot.header, name)
    work = Work(spec=snapshot.spec, measure=measure, frozen=True)
    (model,) = _begun(work, [about.model_id], [snapshot.state])
    model = model._replace(before=about.rows - int(snapshot.state.n))
    found_reference = reference_of(snapshot, name)
    if found_reference is not None:
        work = dataclasses.replace(work, reference=found_reference[0])
        if reference.ready(found_reference[1]):
            model = model._replace(reference=found_reference[1])
    return work, model, about.time


def decode(
    work: Work, data: bytes, name: str, own: bool = False, keeps_given: bool = False
) -> Model:
    """Read back a model that `encode` wrote; see `go_on_each`.

    Raises:
        DataError: for bytes that are no tracker's state (see `codec.decode`), that of a tracker
            with other settings, or damaged ones.
    """
    (found,) = go_on_each(work, [codec.decode(data, name, own)], [name], own, keeps_given)
    if isinstance(found, DataError):
        raise found
    return found


def go_on_each(
    work: Work,
    snapshots: Sequence[codec.Snapshot | DataError],
    names: Sequence[str],
    own: bool = False,
    keeps_given: bool = False,
) -> list[Model | DataError]:
    """Make models that go on from snapshots.

    A companion goes on if it was asked for with the same settings, and begins anew if not.

    Args:
        work: What is done with their rows.
        snapshots: The snapshots, or why one cannot be read.
        names: Where each came from, for errors.
        own: Whether this job wrote them; see `codec.decode`. What they lack models do not have.
        keeps_given: Whether references that the writer was given go on as the models' own.

    Returns:
        The models, or what is wrong: settings of another tracker, a damaged state.
    """
    found: list[Any] = list(snapshots)

    def restore(places: list[int]) -> None:
        some = [(snapshots[place], names[place]) for place in places]
        try:
            for place, model in zip(places, _restored(work, some, own, keeps_given), strict=True):
                found[place] = model
        except (DataError, ConfigError, KeyError, TypeError, ValueError) as error:
            if len(places) > 1:
                # One by one each says what is wrong with it.
                for place in places:
                    restore([place])
            elif isinstance(error, DataError):
                found[places[0]] = error
            else:
                found[places[0]] = DataError(names[places[0]], f"damaged state: {error}")

    restore([at for at, each in enumerate(snapshots) if not isinstance(each, DataError)])
    return found


def _restored(
    work: Work, snapshots: Sequence[tuple[Any, str]], own: bool, keeps_given: bool
) -> list[Model]:
    """Return models; see `go_on_each`.

    Raises:
        DataError: if one is of other settings; as do ConfigError, KeyError, TypeError and
            ValueError of a damaged one, which says nothing of the others.
    """
    known, parts, keys, spec = list[Model](), list[dict[str, Arrays]](), list[str](), work.spec
    for snapshot, name in snapshots:
        about, began = read_about(snapshot.header, name, own), snapshot.header["about"]
        if snapshot.spec is not spec and snapshot.spec.to_dict() != work.spec.to_dict():
            raise DataError(name, "the state of a tracker with other settings")
        spec, companions = snapshot.spec, companions_of(snapshot.extras)
        origin = "" if keeps_given else str(began.get("reference_from", ""))
        if not own and origin != _given_origin(work, about.model_id):
            companions.pop("reference", None)
        kept = [each for each in work.companions if _is_as_asked(work, each, began)]
        parts.append({each.name: companions[each.name] for each in kept if each.name in companions})
        model = Model(snapshot.state, about.time, about.until, before=about.before)
        known.append(model._replace(origin=origin))
        keys.append(about.model_id)
        if model.rows != about.rows:
            raise ConfigError("rows", about.rows, f"{model.rows}, as the state counts them")
    # What a snapshot of this job lacks its model does not have; another's begins anew.
    lack = [at for at, part in enumerate(parts) if len(part) < len(work.companions) and not own]
    states = [known[at].state for at in lack]
    for at, fresh in zip(lack, _begun(work, [keys[at] for at in lack], states), strict=True):
        origin = known[at].origin if "reference" in parts[at] else fresh.origin
        times = {name: getattr(known[at], name) for name in ("state", "time", "until", "before")}
        known[at] = fresh._replace(**times, origin=origin)
    return with_beside(work, known, parts, not own)


def _is_as_asked(work: Work, companion: Companion, began: Mapping[str, Any]) -> bool:
    """Check whether a companion was written with the settings that it is asked for with.

    One that the version which wrote it did not have was as it is by default.
    """
    asked, before = work.settings.get(companion.settings), began.get(companion.settings)
    if asked is None or before is None:
        return asked is before
    if before == asked:
        return True
    default = {s.name: s.default for s in dataclasses.fields(getattr(work, companion.settings))}
    written: dict[str, Any] = {
        name: value for name, value in asked.items() if name in before or value != default.get(name)
    }
    return bool(before == written)


def with_beside(
    work: Work, models: Sequence[Model], parts: Sequence[Mapping[str, Arrays]], given: bool
) -> list[Model]:
    """Return models with what goes along with them, as far as there are arrays of it.

    Args:
        work: What is done with their rows.
        models: The models: their trackers' states at the least.
        parts: Arrays of each by companion.
        given: As of `Companion.read`, for the errors as well.
    """
    found = list(models)
    for each in work.companions:
        there = [at for at, own in enumerate(parts) if each.name in own]
        if there:
            states = [models[at].state for at in there]
            values = each.read(work, states, [parts[at][each.name] for at in there], given)
            for at, fields in zip(there, values, strict=True):
                found[at] = found[at]._replace(**fields)
    return found


def _given_origin(work: Work, key: str) -> str | None:
    """Return the origin that a model's reference must have: "" if it is to be the model's own.

    None if it is to have none.
    """
    if work.given is None:
        return ""
    given = work.given.of(key)
    return None if given is None else given.origin


def _begun(work: Work, keys: Sequence[str], states: Sequence[Any]) -> list[Model]:
    """Return models that begin, the trackers apart: by rows as those that these scale by."""
    if not states:
        return []
    block = get_tracker(work.spec.tracker).pack(work.spec, list(states))
    # Two rows of each, as far apart as most are.
    centre = np.stack([state.shift * state.scale for state in states])
    deviation = np.stack([state.scale for state in states]) / np.sqrt(2.0)
    rows = np.stack([centre - deviation, centre + deviation], axis=1).reshape(-1, block.width)
    starts = 2 * np.arange(len(states))
    models = Models.begin(work, FirstRows(keys, block, rows, starts, starts + 2))
    return [models.model(place) for place in range(len(models))]
