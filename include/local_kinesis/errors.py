"""The error replies of the service; a class's name is the reply's ``__type``.

Tree::

    ServiceError
    ├── AccessDeniedException
    ├── ExpiredIteratorException
    ├── ExpiredNextTokenException
    ├── InvalidArgumentException
    ├── LimitExceededException
    ├── MissingAuthenticationTokenException
    ├── ResourceInUseException
    ├── ResourceNotFoundException
    ├── SerializationException
    ├── UnknownOperationException
    └── ValidationException
"""


class ServiceError(Exception):
    """An error the service answers with; all of these are HTTP 400 (API reference, "Common Errors")."""

    status = 400

    @property
    def kind(self) -> str:
        """The reply's ``__type``."""
        return type(self).__name__


class AccessDeniedException(ServiceError):
    """The caller may not use this operation."""


class ExpiredIteratorException(ServiceError):
    """The shard iterator is older than its life (5 minutes in the service)."""


class ExpiredNextTokenException(ServiceError):
    """A listing's token is older than 300 s: the listing must be started again."""


class InvalidArgumentException(ServiceError):
    """A value has the right form, but does not fit the stream or the shard."""


class LimitExceededException(ServiceError):
    """More was asked for than the account may have."""


class MissingAuthenticationTokenException(ServiceError):
    """The request has no SigV4 credential scope."""


class ResourceInUseException(ServiceError):
    """A stream of this name exists already."""


class ResourceNotFoundException(ServiceError):
    """No such stream or shard in this region."""


class SerializationException(ServiceError):
    """The body is not a JSON object, or a member of it has the wrong type."""


class UnknownOperationException(ServiceError):
    """The X-Amz-Target names no operation of this server."""


class ValidationException(ServiceError):
    """A member is missing, or breaks a constraint of the API's model."""
