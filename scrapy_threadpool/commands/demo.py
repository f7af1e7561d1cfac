from .compare import Command as Compare
class Command(Compare): pass
