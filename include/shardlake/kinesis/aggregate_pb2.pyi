from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AggregatedRecord(_message.Message):
    __slots__ = ("partition_key_table", "explicit_hash_key_table", "records")
    PARTITION_KEY_TABLE_FIELD_NUMBER: _ClassVar[int]
    EXPLICIT_HASH_KEY_TABLE_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    partition_key_table: _containers.RepeatedScalarFieldContainer[bytes]
    explicit_hash_key_table: _containers.RepeatedScalarFieldContainer[bytes]
    records: _containers.RepeatedCompositeFieldContainer[Record]
    def __init__(
        self,
        partition_key_table: _Optional[_Iterable[bytes]] = ...,
        explicit_hash_key_table: _Optional[_Iterable[bytes]] = ...,
        records: _Optional[_Iterable[_Union[Record, _Mapping]]] = ...,
    ) -> None: ...

class Record(_message.Message):
    __slots__ = ("partition_key_index", "explicit_hash_key_index", "data", "tags")
    PARTITION_KEY_INDEX_FIELD_NUMBER: _ClassVar[int]
    EXPLICIT_HASH_KEY_INDEX_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    partition_key_index: int
    explicit_hash_key_index: int
    data: bytes
    tags: _containers.RepeatedCompositeFieldContainer[Tag]
    def __init__(
        self,
        partition_key_index: _Optional[int] = ...,
        explicit_hash_key_index: _Optional[int] = ...,
        data: _Optional[bytes] = ...,
        tags: _Optional[_Iterable[_Union[Tag, _Mapping]]] = ...,
    ) -> None: ...

class Tag(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
