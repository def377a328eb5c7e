"""The models that a plan can name, each by the settings it takes; `settings.open()` starts one."""

from chimeralab.models.embedded import EmbeddedSettings
from chimeralab.models.inspect import InspectSettings
from chimeralab.models.openai import OpenAISettings
from chimeralab.models.phantom import PhantomSettings
from chimeralab.models.replay import ReplaySettings

MODELS: dict[str, type] = {
    "embedded": EmbeddedSettings,
    "openai": OpenAISettings,
    "inspect": InspectSettings,
    "phantom": PhantomSettings,
    "replay": ReplaySettings,
}
