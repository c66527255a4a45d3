"""`shardlake deregister`: remove the registered consumer that enhanced fan-out read by."""

from __future__ import annotations

import click

from shardlake.cli.by_hand import yes_option
from shardlake.cli.output import print_json
from shardlake.cli.setup import Setup, json_option, pass_setup, pipeline_argument


@click.command("deregister", short_help="Remove a consumer that enhanced fan-out read by.")
@pipeline_argument
@click.argument("consumer")
@yes_option
@json_option
@pass_setup
def deregister_command(setup: Setup, name: str, consumer: str, yes: bool, as_json: bool) -> None:
    """Deregister CONSUMER, which PIPELINE registered with its stream and which costs money as long as it is there.

    Take the key consumer out of the configuration first, or the next batch registers it again. Batches that read by it
    go on by polling. A consumer without the pipeline's tag is somebody else's and is not touched. Asks first.

    With --json: an object with pipeline, consumer and consumer_arn.
    """
    from shardlake.kinesis.consumers import own_consumer

    kinesis = setup.looking(name).kinesis()
    found = own_consumer(kinesis, kinesis.describe()[0].arn, consumer, name)
    if not yes:
        click.confirm(f"Deregister {found.arn}?", abort=True, err=True)
    kinesis.deregister_consumer(found.arn)
    if as_json:
        print_json({"pipeline": name, "consumer": consumer, "consumer_arn": found.arn})
    else:
        click.echo(f"deregistered {found.arn}")
