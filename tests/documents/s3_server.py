"""An S3 server on loopback, run by the Python of .venv-s3, until its standard input ends.

It prints its address and two users, one who may do everything and one who may only read, as JSON.
"""

import json
import sys

import boto3
from moto.moto_server.threaded_moto_server import ThreadedMotoServer

BUCKET = "documents"
RIGHTS = {"writer": ["s3:*"], "reader": ["s3:GetObject", "s3:ListBucket"]}


def main() -> None:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    boto3.client("s3", endpoint_url=address).create_bucket(Bucket=BUCKET)
    users = boto3.client("iam", endpoint_url=address)
    made = {}
    for name, actions in RIGHTS.items():
        users.create_user(UserName=name)
        allowed = {"Effect": "Allow", "Action": actions, "Resource": "*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
        users.put_user_policy(UserName=name, PolicyName="s3", PolicyDocument=policy)
        key = users.create_access_key(UserName=name)["AccessKey"]
        made[name] = (key["AccessKeyId"], key["SecretAccessKey"])
    sys.stdout.write(json.dumps({"address": address, **made}) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
