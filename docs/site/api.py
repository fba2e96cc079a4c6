"""Pages of the Python API: a page for each class or function, and a list of them."""

from __future__ import annotations

import functools
import importlib
import inspect
import operator

GROUPS = {
    "Fleets and models": (
        "kerneltrack.Fleet",
        "kerneltrack.Tracker",
        "kerneltrack.tracker.Row",
        "kerneltrack.ReferenceSpec",
        "kerneltrack.AutoSpec",
        "kerneltrack.KerneltrackError",
        "kerneltrack.ConfigError",
        "kerneltrack.DataError",
    ),
    "On arrays": (
        "kerneltrack.run_all",
        "kerneltrack.learn_all",
        "kerneltrack.KernelTracker",
        "kerneltrack.Features",
        "kerneltrack.Learner",
        "kerneltrack.Predictions",
        "kerneltrack.parse_spec",
        "kerneltrack.parse_learner_spec",
        "kerneltrack.settings_of",
        "kerneltrack.get_tracker",
        "kerneltrack.get_learner",
        "kerneltrack.choose_landmarks",
        "kerneltrack.LandmarkSpec",
        "kerneltrack.fit_bkfe",
    ),
    "Trackers": (
        "kerneltrack.SubspaceSpec",
        "kerneltrack.OKFEB",
        "kerneltrack.OKFEBSpec",
        "kerneltrack.OKFE",
        "kerneltrack.OKFESpec",
        "kerneltrack.CovarianceTracker",
        "kerneltrack.CovarianceSpec",
        "kerneltrack.OANA",
        "kerneltrack.OANASpec",
        "kerneltrack.DSKPCA",
        "kerneltrack.DSKPCASpec",
        "kerneltrack.DSPair",
        "kerneltrack.DSPairSpec",
        "kerneltrack.Rows",
        "kerneltrack.RowsSpec",
    ),
    "Learners": (
        "kerneltrack.LearnerSpec",
        "kerneltrack.LearnerState",
        "kerneltrack.LinearSpec",
        "kerneltrack.Ridge",
        "kerneltrack.RidgeSpec",
        "kerneltrack.Logistic",
        "kerneltrack.LogisticSpec",
        "kerneltrack.Hinge",
        "kerneltrack.HingeSpec",
        "kerneltrack.Pegasos",
        "kerneltrack.PegasosSpec",
        "kerneltrack.LMS",
        "kerneltrack.LMSSpec",
        "kerneltrack.PA",
        "kerneltrack.PASpec",
        "kerneltrack.POLK",
        "kerneltrack.POLKSpec",
        "kerneltrack.BSGD",
        "kerneltrack.BSGDSpec",
        "kerneltrack.NOLANA",
        "kerneltrack.NOLANASpec",
        "kerneltrack.FOGD",
        "kerneltrack.FOGDSpec",
    ),
    "Odd rows and windows": (
        "kerneltrack.monitor.find_episodes",
        "kerneltrack.monitor.Found",
        "kerneltrack.monitor.ReferenceDetector",
        "kerneltrack.monitor.Scores",
        "kerneltrack.window_mismatch",
        "kerneltrack.monitor.Episode",
        "kerneltrack.monitor.ReferenceState",
        "kerneltrack.monitor.compare",
        "kerneltrack.monitor.Neighbours",
        "kerneltrack.monitor.Neighbour",
        "kerneltrack.monitor.fingerprint",
        "kerneltrack.monitor.DriftSpec",
        "kerneltrack.monitor.Mismatch",
        "kerneltrack.monitor.MovingWindow",
        "kerneltrack.monitor.fitting_bound",
    ),
    "River": (
        "kerneltrack.river.SubspaceFeatures",
        "kerneltrack.river.SubspaceDetector",
        "kerneltrack.river.OnlineClassifier",
        "kerneltrack.river.OnlineRegressor",
    ),
    "scikit-learn": (
        "kerneltrack.sklearn.SubspaceTracker",
        "kerneltrack.sklearn.SubspaceClassifier",
        "kerneltrack.sklearn.SubspaceRegressor",
    ),
    "Beam transforms": (
        "transforms.RowsToChunks",
        "transforms.ChunksToRows",
        "transforms.TrackByPartition",
        "transforms.TrackSubspace",
        "transforms.LearnLabels",
        "transforms.TrainLinear",
        "transforms.ScoreRows",
        "transforms.MeasureMismatch",
        "kerneltrack.beam.SummarisePeriods",
        "transforms.ReadChunks",
        "transforms.ReadLabels",
        "transforms.ReadMessages",
        "transforms.SendMessages",
        "transforms.WriteChunks",
        "transforms.WriteFailures",
        "transforms.WriteSnapshots",
        "transforms.Chunk",
        "transforms.Failures",
        "transforms.ColumnOptions",
        "transforms.FormatOptions",
        "transforms.Order",
        "transforms.LateLabels",
        "transforms.SnapshotFolder",
        "transforms.features_schema",
        "transforms.predictions_schema",
        "transforms.episodes_schema",
        "transforms.anomaly.ReferenceDetector",
        "transforms.inference.SnapshotHandler",
        "transforms.beam_yaml.track_subspace",
        "transforms.beam_yaml.measure_mismatch",
        "transforms.beam_yaml.train_linear",
    ),
    "Models elsewhere": (
        "kerneltrack.export.onnx.to_onnx",
        "kerneltrack.export.frozen.freeze",
        "kerneltrack.export.frozen.freeze_head",
        "kerneltrack.export.mlflow_folder.write_mlflow",
        "kerneltrack.export.hub.write_hub",
    ),
}
"""The names that have a page, as they are imported."""
INDEX = "reference/api.md"


def page_name(name: str) -> str:
    """Return the name of the page of a class or function."""
    return f"reference/api/{name}.md"


def page_of(name: str) -> str:
    """Return the page of a class or function, which mkdocstrings fills."""
    short = name.rpartition(".")[2]
    return "\n".join(
        [
            f"# {short}",
            "",
            f"::: {name}",
            "    options:",
            "      heading_level: 2",
            "      show_root_toc_entry: false",
            "",
        ]
    )


def index() -> str:
    """Return the list of all pages, with the first line of each docstring."""
    lines = [
        "# Python API",
        "",
        "`import kerneltrack as kt` imports a part when it is first used. [From Python]"
        "(../python.md) shows how the parts are used; the transforms are imported as "
        "`from kerneltrack.beam import TrackSubspace`.",
    ]
    for title, names in GROUPS.items():
        lines += ["", f"## {title}", "", "| name | what it is |", "|---|---|"]
        lines += [
            f"| [<code>{name.replace('.', '.<wbr>')}</code>](api/{name}.md) | {first_line(name)} |"
            for name in names
        ]
    return "\n".join([*lines, ""])


def first_line(name: str) -> str:
    """Return the first line of the docstring of a class or function."""
    module, _, attribute = name.rpartition(".")
    found = operator.attrgetter(attribute)(importlib.import_module(module))
    return (inspect.getdoc(found) or "").partition("\n")[0].replace("|", "\\|")


def pages() -> dict[str, functools.partial[str]]:
    """Return what makes each page, by the page's name."""
    return {
        page_name(name): functools.partial(page_of, name)
        for names in GROUPS.values()
        for name in names
    }


def nav() -> list[dict[str, object]]:
    """Return the pages as a part of the site's contents: a list of groups below the index."""
    groups = [
        {title: [{name.rpartition(".")[2]: page_name(name)} for name in names]}
        for title, names in GROUPS.items()
    ]
    return [{"Python API": [INDEX, *groups]}]
