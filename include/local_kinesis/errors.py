"""The error replies of the service; a class's name is the reply's ``__type``.

Tree::

    ServiceError
    ├── AccessDeniedException
    ├── ExpiredIteratorException
    ├── ExpiredNextTokenException
    ├── InternalFailure
    ├── InvalidArgumentException
    ├── KMSThrottlingException
    ├── LimitExceededException
    ├── MissingAuthenticationTokenException
    ├── ProvisionedThroughputExceededException
    ├── ResourceInUseException
    ├── ResourceNotFoundException
    ├── SerializationException
    ├── ServiceUnavailable
    ├── UnknownOperationException
    └── ValidationException
"""


class ServiceError(Exception):
    """An error the service answers with; HTTP 400 but for two (API reference, "Common Errors")."""

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


class InternalFailure(ServiceError):
    """The service failed."""

    status = 500


class InvalidArgumentException(ServiceError):
    """A value has the right form, but does not fit the stream or the shard."""


class KMSThrottlingException(ServiceError):
    """The key management service throttles the stream's encryption."""


class LimitExceededException(ServiceError):
    """More was asked for than the account may have."""


class MissingAuthenticationTokenException(ServiceError):
    """The request has no SigV4 credential scope."""


class ProvisionedThroughputExceededException(ServiceError):
    """A shard was asked for more than its limits allow."""


class ResourceInUseException(ServiceError):
    """A stream of this name exists already."""


class ResourceNotFoundException(ServiceError):
    """No such stream or shard in this region."""


class SerializationException(ServiceError):
    """The body is not a JSON object, or a member of it has the wrong type."""


class ServiceUnavailable(ServiceError):
    """The service cannot take the call at the moment."""

    status = 503


class UnknownOperationException(ServiceError):
    """The X-Amz-Target names no operation of this server."""


class ValidationException(ServiceError):
    """A member is missing, or breaks a constraint of the API's model."""
