import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gradicon.errors import GradiconError, UnwritableError
from gradicon.physical.landmarks import Frame, Landmarks, read_landmarks, write_landmarks

Named = tuple[tuple[str, ...], np.ndarray]
SUFFIXES = (".csv", ".fcsv", ".mrk.json")
FRAMES = st.sampled_from(["lps", "ras"])
# Anything but line breaks, which tables refuse, and surrogates, which are not text.
ODD = st.sampled_from(["a, b", '"', 'a "b"', "# 1", " ", "", "é"])
LABELS = ODD | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r"))
VALUES = st.floats(allow_nan=False, allow_infinity=False)
in_one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
fuzz = settings(in_one_folder, max_examples=150)

# As 3D Slicer 5 writes them, with the two cells that the .fcsv header does not name, a quoted label
# and integer positions.
FCSV = """\
# Markups fiducial file version = 5.6
# CoordinateSystem = LPS
# columns = id,x,y,z,ow,ox,oy,oz,vis,sel,lock,label,desc,associatedNodeID
1,-12.5,30.25,-7,0,0,0,1,1,1,0,"carina, lower",,vtkMRMLScalarVolumeNode1,2,0
2,3.0000000000000004,-0.1,120.75,0,0,0,1,1,1,0,F-2,a note,vtkMRMLScalarVolumeNode1,2,0
"""
MRK_JSON = """\
{
    "@schema": "https://raw.githubusercontent.com/slicer/slicer/master/Modules/Loadable/Markups/Resources/Schema/markups-schema-v1.0.3.json#",
    "markups": [
        {
            "type": "Fiducial",
            "coordinateSystem": "LPS",
            "coordinateUnits": "mm",
            "locked": false,
            "fixedNumberOfControlPoints": false,
            "labelFormat": "%N-%d",
            "lastUsedControlPointNumber": 2,
            "controlPoints": [
                {"id": "1", "label": "carina, lower", "description": "", "associatedNodeID": "vtkMRMLScalarVolumeNode1",
                 "position": [-12.5, 30.25, -7], "orientation": [-1.0, -0.0, -0.0, -0.0, -1.0, -0.0, 0.0, 0.0, 1.0],
                 "selected": true, "locked": false, "visibility": true, "positionStatus": "defined"},
                {"id": "2", "label": "F-2", "description": "a note", "associatedNodeID": "vtkMRMLScalarVolumeNode1",
                 "position": [3.0000000000000004, -0.1, 120.75], "orientation": [-1.0, -0.0, -0.0, -0.0, -1.0, -0.0, 0.0, 0.0, 1.0],
                 "selected": true, "locked": false, "visibility": true, "positionStatus": "defined"}
            ],
            "measurements": [],
            "display": {"visibility": true, "opacity": 1.0, "color": [0.4, 1.0, 1.0], "glyphType": "Sphere3D", "glyphScale": 3.0}
        }
    ]
}
"""
CSV = 'label,x,y,z\n"carina, lower",-12.5,30.25,-7\nF-2,3.0000000000000004,-0.1,120.75\n'
SAMPLES = {".csv": CSV, ".fcsv": FCSV, ".mrk.json": MRK_JSON}
LABELS_OF_SAMPLE = ("carina, lower", "F-2")
POINTS_OF_SAMPLE = [[-12.5, 30.25, -7.0], [3.0000000000000004, -0.1, 120.75]]


def file(folder: Path, suffix: str, content: str | bytes) -> Path:
    path = folder / f"points{suffix}"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@st.composite
def drawn(draw: st.DrawFn, dimensions: tuple[int, ...] = (2, 3)) -> Named:
    size = draw(st.integers(1, 4))
    dimension = draw(st.sampled_from(dimensions))
    values = draw(st.lists(VALUES, min_size=size * dimension, max_size=size * dimension))
    labels = draw(st.lists(LABELS, min_size=size, max_size=size))
    return tuple(labels), np.array(values).reshape(size, dimension)


def check_equal(got: Landmarks, want: Landmarks):
    assert got.labels == want.labels
    assert got.points_mm.dtype == np.float64
    np.testing.assert_array_equal(got.points_mm, want.points_mm)


@in_one_folder
@given(drawn(), FRAMES)
def test_a_table_returns_every_digit_and_label(tmp_path: Path, named: Named, frame: Frame):
    want = Landmarks(*named)
    write_landmarks(tmp_path / "points.csv", want, frame=frame)
    check_equal(read_landmarks(tmp_path / "points.csv", frame=frame), want)


@in_one_folder
@given(drawn((3,)), FRAMES, FRAMES, st.sampled_from([".fcsv", ".mrk.json"]))
def test_slicers_formats_state_their_frame(
    tmp_path: Path, named: Named, frame: Frame, other: Frame, suffix: str
):
    want = Landmarks(*named)
    write_landmarks(tmp_path / f"points{suffix}", want, frame=frame)
    check_equal(read_landmarks(tmp_path / f"points{suffix}", frame=other), want)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_sample_of_every_format(tmp_path: Path, suffix: str):
    got = read_landmarks(str(file(tmp_path, suffix, SAMPLES[suffix])))
    check_equal(got, Landmarks(LABELS_OF_SAMPLE, np.array(POINTS_OF_SAMPLE)))


@pytest.mark.parametrize(
    ("suffix", "frame", "content"),
    [
        (".csv", "lps", "x,y,z\n1,2,3\n"),
        (".csv", "ras", "x,y,z\n-1,-2,3\n"),
        (".csv", "lps", "x,y,z\r1,2,3\r"),  # an old Macintosh's
        (
            ".csv",
            "lps",
            "\ufeffslice, Z ,y,note,X\r\n9,3,2,a,1\r\n,,,,\r\n\r\n",
        ),  # a spreadsheet's, in another order
        (".fcsv", "ras", FCSV[: FCSV.index("1,-12")] + "1,1,2,3,0,0,0,1,1,1,0,1,,\n"),
        (".fcsv", "lps", "# CoordinateSystem = RAS\n# columns = x,y,z\n-1,-2,3\n"),
        (".fcsv", "ras", "# CoordinateSystem = 1\n# columns = x,y,z\n1,2,3\n"),
        (".fcsv", "lps", "# CoordinateSystem = 0\n# columns = x,y,z\n-1,-2,3\n"),
        (
            ".fcsv",
            "lps",
            "# Fiducial List file a\n# columns = label,x,y,z,sel,vis\n# hidden\n1,-1,-2,3,1,1\n",
        ),  # Slicer 3: RAS
        (
            ".mrk.json",
            "ras",
            '{"markups": [{"coordinateSystem": "LPS", "controlPoints": [{"position": [1, 2, 3]}]}]}',
        ),
        (
            ".mrk.json",
            "lps",
            '{"markups": [{"coordinateSystem": "RAS", "controlPoints": [{"position": [-1, -2, 3]}]}]}',
        ),
        (".mrk.json", "ras", '{"markups": [{"controlPoints": [{"position": [-1, -2, 3]}]}]}'),
    ],
)
def test_one_point_in_every_frame_and_format(
    tmp_path: Path, suffix: str, frame: Frame, content: str
):
    check_equal(
        read_landmarks(file(tmp_path, suffix, content), frame=frame),
        Landmarks(("1",), np.array([[1.0, 2.0, 3.0]])),
    )


@pytest.mark.parametrize("frame", ["lps", "ras"])
def test_what_the_files_say(tmp_path: Path, frame: Frame):
    sign = -1.0 if frame == "ras" else 1.0
    for suffix in SUFFIXES:
        write_landmarks(
            tmp_path / f"points{suffix}",
            Landmarks(("tip",), np.array([[1.5, 2.5, 3.5]])),
            frame=frame,
        )
    assert (
        tmp_path / "points.csv"
    ).read_text() == f"label,x,y,z\ntip,{sign * 1.5},{sign * 2.5},3.5\n"
    comments, row = (tmp_path / "points.fcsv").read_text().split("associatedNodeID\n")
    assert f"# CoordinateSystem = {frame.upper()}\n" in comments
    assert row == f"1,{sign * 1.5},{sign * 2.5},3.5,0,0,0,1,1,1,0,tip,,\n"
    markup = json.loads((tmp_path / "points.mrk.json").read_text())["markups"][0]
    assert (markup["type"], markup["coordinateSystem"], markup["coordinateUnits"]) == (
        "Fiducial",
        frame.upper(),
        "mm",
    )
    assert markup["controlPoints"][0]["position"] == [sign * 1.5, sign * 2.5, 3.5]


def test_two_dimensional_points_without_labels(tmp_path: Path):
    got = read_landmarks(file(tmp_path, ".csv", "y,x\n2,1\n4,3\n"), frame="ras")
    check_equal(got, Landmarks(("1", "2"), np.array([[-1.0, -2.0], [-3.0, -4.0]])))


POINT = '{"label": "tip", "position": [1, 2, 3]%s}'
MARKUPS = '{"markups": [{"coordinateSystem": "LPS"%s, "controlPoints": [%s]}]}'
COLUMNS = "# CoordinateSystem = LPS\n# columns = id,x,y,z,label\n"


@pytest.mark.parametrize(
    ("suffix", "content", "message"),
    [
        (".csv", "", "expected one column x in the header, found 0"),
        (".csv", "x,z\n1,2\n", "expected one column y in the header, found 0"),
        (".csv", "x,y,X\n1,2,3\n", "expected one column x in the header, found 2"),
        (".csv", "1,2,3\n4,5,6\n", "expected one column x in the header, found 0"),
        (".csv", "x,y\n", "expected at least one point, found none"),
        (".csv", "x,y\n1,2\n3,far\n", "line 3: y: expected a finite number, got 'far'"),
        (".csv", "x,y\n1,\n", "line 2: y: expected a finite number, got ''"),
        (".csv", "x,y\nnan,2\n", "line 2: x: expected a finite number, got 'nan'"),
        (".csv", "x,y\n1,1e999\n", "line 2: y: expected a finite number, got '1e999'"),
        (".csv", "x,y\n1_0,2\n", "line 2: x: expected a finite number, got '1_0'"),
        (".csv", "x,y\n\n1,2\n1,2,3\n", "line 4: expected 2 cells as in the header, got 3"),
        (
            ".csv",
            'x,y,label\n1,2,"tip\n',
            "line 2: expected comma-separated cells: unexpected end of data",
        ),
        (".csv", b"x,y\n1,\xff\n", "byte 6: expected text in UTF-8"),
        (
            ".fcsv",
            "1,2,3\n",
            (
                "expected the line '# columns = "
                "id,x,y,z,ow,ox,oy,oz,vis,sel,lock,label,desc,associatedNodeID'"
            ),
        ),
        (
            ".fcsv",
            "# columns = id,x,y,label\n1,2,3,tip\n",
            "expected one column z in the header, found 0",
        ),
        (
            ".fcsv",
            "# CoordinateSystem = 2\n# columns = x,y,z\n1,2,3\n",
            "CoordinateSystem: expected LPS or RAS, got '2'",
        ),
        (".fcsv", COLUMNS, "expected at least one point, found none"),
        (
            ".fcsv",
            f"{COLUMNS}1,2,3,4,tip\n1,2,3,tip\n",
            "line 4: expected 5 cells as in the header, got 4",
        ),
        (
            ".fcsv",
            f"{COLUMNS}1,2,3,4,tip\n1,2,x,4,tip\n",
            "line 4: y: expected a finite number, got 'x'",
        ),
        (
            ".fcsv",
            f"{COLUMNS}1,2,3,4,tip,0,0\n",
            "line 3: expected a defined point, of status 2, got '0'",
        ),
        (
            ".fcsv",
            f'{COLUMNS}1,2,3,4,"tip',
            "line 3: expected comma-separated cells: unexpected end of data",
        ),
        (
            ".mrk.json",
            "",
            "expected one whole JSON text: Expecting value: line 1 column 1 (char 0)",
        ),
        (".mrk.json", MRK_JSON[:-20], "expected one whole JSON text: Expecting"),
        (
            ".mrk.json",
            "[" * 100_000,
            "expected one whole JSON text: maximum recursion depth exceeded",
        ),
        (".mrk.json", b"\x89PNG\r\n", "byte 0: expected text in UTF-8"),
        (".mrk.json", "[]", "expected markups[0].controlPoints, a list of points"),
        (".mrk.json", '{"markups": []}', "expected markups[0].controlPoints, a list of points"),
        (".mrk.json", MARKUPS % ("", ""), "expected at least one point, found none"),
        (
            ".mrk.json",
            '{"markups": [{"coordinateSystem": 1, "controlPoints": []}]}',
            "coordinateSystem: expected LPS or RAS, got 1.0",
        ),
        (
            ".mrk.json",
            MARKUPS % (', "coordinateUnits": "um"', POINT % ""),
            "coordinateUnits: expected 'mm', got 'um'",
        ),
        (".mrk.json", MARKUPS % ("", '{"label": 7}'), "point 1: label: expected a string, got 7.0"),
        (".mrk.json", MARKUPS % ("", "3"), "point 1: label: expected a string, got None"),
        (
            ".mrk.json",
            MARKUPS % ("", '{"position": [1, 2]}'),
            "point 1: position: expected a list of three numbers, got [1.0, 2.0]",
        ),
        (
            ".mrk.json",
            MARKUPS % ("", '{"position": [1, 2, true]}'),
            "point 1: position: expected a list of three numbers, got [1.0,",
        ),
        (
            ".mrk.json",
            MARKUPS % ("", '{"position": [1, 2, NaN]}'),
            "point 1: z: expected a finite number, got nan",
        ),
        (
            ".mrk.json",
            MARKUPS % ("", '{"position": [1, 9%s, 2]}' % ("9" * 5000)),
            "point 1: y: expected a finite number, got inf",
        ),
        (
            ".mrk.json",
            MARKUPS % ("", ", ".join([POINT % "", POINT % ', "positionStatus": "undefined"'])),
            "point 2, 'tip': expected a point whose positionStatus is 'defined', got 'undefined'",
        ),
    ],
)
def test_bad_files(tmp_path: Path, suffix: str, content: str | bytes, message: str):
    path = file(tmp_path, suffix, content)
    with pytest.raises(
        ValueError, match=f"^{re.escape(f'{path}: {message}')}.*$"
    ):  # all on one line
        read_landmarks(path)


def test_files_that_are_not_there(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=r"none\.csv: no such landmark file"):
        read_landmarks(tmp_path / "none.csv")
    with pytest.raises(
        ValueError,
        match=r"points\.txt: expected a landmark file that ends in \.csv, \.fcsv or \.mrk\.json",
    ):
        read_landmarks(tmp_path / "points.txt")
    with pytest.raises(UnwritableError, match="the folder .*none does not exist"):
        write_landmarks(tmp_path / "none" / "points.csv", Landmarks(("1",), np.zeros((1, 2))))


@pytest.mark.parametrize(
    ("suffix", "label", "dimension", "message"),
    [
        (".fcsv", "tip", 2, r"points\.fcsv: \.fcsv holds 3-D points, got 2-D ones: write a \.csv"),
        (
            ".mrk.json",
            "tip",
            2,
            r"points\.mrk\.json: \.mrk\.json holds 3-D points, got 2-D ones: write a \.csv",
        ),
        (
            ".csv",
            "two\nlines",
            3,
            r"points\.csv: point 1: expected a label that is one line of text, got 'two\\nlines'",
        ),
        (
            ".fcsv",
            "\ud800",
            3,
            r"points\.fcsv: point 1: expected a label that is one line of text, got '\\ud800'",
        ),
    ],
)
def test_what_a_file_cannot_hold(
    tmp_path: Path, suffix: str, label: str, dimension: int, message: str
):
    with pytest.raises(ValueError, match=message):
        write_landmarks(tmp_path / f"points{suffix}", Landmarks((label,), np.ones((1, dimension))))
    assert not list(tmp_path.iterdir())


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = file(tmp_path, ".csv", CSV)

    def full(*arguments: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_landmarks(path, Landmarks(("1",), np.zeros((1, 3))))
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text() == CSV


@pytest.mark.parametrize(
    ("labels", "points", "message"),
    [
        (("1",), np.zeros((2, 3)), r"1 labels need points_mm of shape \(1, 2 or 3\)"),
        (("1",), np.zeros((1, 4)), r"got \(1, 4\)"),
        (("1",), np.zeros(3), r"got \(3,\)"),
        ((), np.zeros((0, 3)), "at least one point"),
        (
            ("1", "2"),
            np.array([[1.0, 2.0], [np.inf, 3.0]]),
            r"points_mm must be finite, got \[\[inf, 3.0\]\]",
        ),
    ],
)
def test_bad_landmarks(labels: tuple[str, ...], points: np.ndarray, message: str):
    with pytest.raises(ValueError, match=message):
        Landmarks(labels, points)


def read_or_refuse(path: Path) -> Landmarks | None:
    """Anything but a landmark list or a ValueError of one short line, which names the file, fails
    the test.
    """
    try:
        return read_landmarks(path)
    except ValueError as error:
        refusal = error
    assert type(refusal) is GradiconError
    assert re.fullmatch(f"{re.escape(str(path))}: .{{1,160}}", str(refusal))
    return None


@fuzz
@given(st.binary(max_size=200), st.sampled_from(SUFFIXES))
@example(b'"' * 3 + b"x" * 140_000, ".csv")  # a cell longer than csv's limit
@example(b"x,y\n\0,\r1\n", ".csv")
def test_random_bytes_are_refused(tmp_path: Path, content: bytes, suffix: str):
    assert read_or_refuse(file(tmp_path, suffix, content)) is None


@fuzz
@given(
    st.text(max_size=60),
    st.sampled_from([("x,y\n", ".csv"), (COLUMNS, ".fcsv"), ('{"markups": [', ".mrk.json")]),
)
def test_random_text_after_a_good_beginning(tmp_path: Path, content: str, start: tuple[str, str]):
    read_or_refuse(file(tmp_path, start[1], (start[0] + content).encode(errors="replace")))


@fuzz
@given(st.data(), st.sampled_from(SUFFIXES), st.binary(max_size=1))
def test_a_byte_replaced_or_removed(tmp_path: Path, data: st.DataObject, suffix: str, byte: bytes):
    good = SAMPLES[suffix].encode()
    at = data.draw(st.integers(0, len(good) - 1))
    got = read_or_refuse(file(tmp_path, suffix, good[:at] + byte + good[at + 1 :]))
    assert got is None or got.points_mm.shape[1] == 3 or suffix == ".csv"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_cut_short_anywhere(tmp_path: Path, suffix: str):
    good = SAMPLES[suffix].encode()
    for length in range(len(good) - 1):
        got = read_or_refuse(file(tmp_path, suffix, good[:length]))
        assert got is None or suffix != ".mrk.json"
        if got is not None:  # what is left of a table is whole rows, but for the end of the last
            check_equal(
                Landmarks(got.labels[:1], got.points_mm[:1]),
                Landmarks(LABELS_OF_SAMPLE[:1], np.array(POINTS_OF_SAMPLE[:1])),
            )


@pytest.mark.parametrize("depth", [20, 300, 900, 960, 980, 990, 2000])
def test_deep_nesting_is_refused(tmp_path: Path, depth: int):
    deep = "[" * depth + "]" * depth
    for where in (f'"position": {deep}', f'"label": {deep}', f'"positionStatus": {deep}'):
        assert read_or_refuse(file(tmp_path, ".mrk.json", MARKUPS % ("", f"{{{where}}}"))) is None
    assert (
        read_or_refuse(
            file(tmp_path, ".mrk.json", MARKUPS % (f', "coordinateUnits": {deep}', POINT % ""))
        )
        is None
    )
