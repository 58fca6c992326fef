"""Scenes of `render-tile` for tests: one to view, and hypothesis texts, ordinary and at the limits."""

from hypothesis import strategies as st

SMALL = """
picture 12 9; samples 3; bounces 4; seed 5     // a floor, a mirror, a ball and a lamp
camera 0 1.2 -4  0 0.7 0  1.3
sky #6fa0e0 #e8eef6 0.8; sun 0.5 0.8 -0.6 #fff0d8 1.5
plane 0 0 0  0 1 0  checked #d8d4cc #384658
sphere -0.9 0.8 0.3  0.8  mirror #f4f4f4
box 0.3 0 -0.4  1.3 0.9 0.6  matte #d8473a
sphere 0.1 0.3 -1.4  0.3  light #ffd9a0 3
"""
LIMITS = (-500_000, -499_999, -1, 0, 1, 499_999, 500_000)


def decimal(milli: int) -> str:
    """Return thousandths as a scene writes them."""
    sign, rest = ("-", -milli) if milli < 0 else ("", milli)
    return f"{sign}{rest // 1_000}.{rest % 1_000:03}"


def _colour() -> st.SearchStrategy[str]:
    return st.binary(min_size=3, max_size=3).map(lambda raw: "#" + raw.hex())


def _surface() -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("matte {}".format, _colour()),
        st.builds("mirror {}".format, _colour()),
        st.builds("checked {} {}".format, _colour(), _colour()),
        st.builds("light {} {}".format, _colour(), st.sampled_from(["0", "1.5", "100"])),
    )


def _numbers(far: bool) -> st.SearchStrategy[int]:
    near = st.integers(-3_000, 3_000)
    return st.one_of(near, st.sampled_from(LIMITS), st.integers(-500_000, 500_000)) if far else near


@st.composite
def scene_texts(draw: st.DrawFn, far: bool = False) -> str:
    """Draw a scene of few pixels. With `far`, numbers reach their limits."""
    number = _numbers(far)
    width, height = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    said = [
        f"picture {width} {height}",
        f"samples {draw(st.integers(1, 3))}",
        f"bounces {draw(st.integers(1, 8 if far else 4))}",
        f"seed {draw(st.integers(0, 2**32 - 1))}",
    ]
    eye, (x, y, z) = [draw(number) for _ in range(3)], [draw(number) for _ in range(3)]
    if (x, z) == (eye[0], eye[2]):
        x += 1 if x < 0 else -1
    zoom = draw(st.sampled_from([250, 1_000, 16_000]))
    said.append("camera " + " ".join(map(decimal, (*eye, x, y, z, zoom))))
    if draw(st.booleans()):
        said.append(f"sky {draw(_colour())} {draw(_colour())} {draw(st.sampled_from(['0', '1', '100']))}")
    if draw(st.booleans()):
        said.append(f"sun {_direction(draw, number)} {draw(_colour())} {draw(st.sampled_from(['1', '100']))}")
    said += [_object(draw, number, far) for _ in range(draw(st.integers(1, 5)))]
    return "; ".join(said)


def _object(draw: st.DrawFn, number: st.SearchStrategy[int], far: bool) -> str:
    kind, place = draw(st.sampled_from(["sphere", "plane", "box"])), [draw(number) for _ in range(3)]
    if kind == "sphere":
        sizes = decimal(draw(st.integers(16, 500_000 if far else 2_000)))
    elif kind == "plane":
        sizes = _direction(draw, number)
    else:
        place = [min(part, 499_999) for part in place]
        sizes = " ".join(decimal(draw(st.integers(part + 1, 500_000 if far else part + 2_000))) for part in place)
    return f"{kind} {' '.join(map(decimal, place))} {sizes} {draw(_surface())}"


def _direction(draw: st.DrawFn, number: st.SearchStrategy[int]) -> str:
    parts = [draw(number) for _ in range(3)]
    return " ".join(map(decimal, parts if any(parts) else (0, 1, 0)))
