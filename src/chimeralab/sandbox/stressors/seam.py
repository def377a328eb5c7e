"""The seam where stressors are exchanged: a scene in, the scene as the subject will see it out."""

from typing import Any, Protocol

from chimeralab.sandbox.scene import Moment, Scene


class Stressor(Protocol):
    """Settings that can change a scene. What it does hangs on the scene and the moment alone."""

    def apply(self, scene: Scene, moment: Moment) -> Scene: ...

    def as_dict(self) -> dict[str, Any]: ...
