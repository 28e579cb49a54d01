from rotopaint_ai.api import Shot as Shot
from rotopaint_ai.api import evaluate as evaluate
from rotopaint_ai.api import mine as mine
from rotopaint_ai.api import run as run
from rotopaint_ai.api import train as train

__version__: str
