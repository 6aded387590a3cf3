"""What can go wrong: each message says on one line what was asked, what blocks it and what to do."""


class OpalgebraError(Exception):
    """Base of every error that the library raises on purpose."""


class NotLinearError(OpalgebraError):
    """A law that holds for linear operators only was asked of one that is not known to be linear."""


class SpaceError(OpalgebraError):
    """Domains and codomains do not fit, or a dressing was asked in something that is not a state."""


class LimitError(OpalgebraError):
    """A result would be larger than the limit; the message gives the count."""


class InputError(OpalgebraError):
    """Text, a prompt, an option or a file cannot be used as given."""


class ModelError(OpalgebraError):
    """A model is missing, of an unknown family, not finite, or disagrees with its own forward pass."""
