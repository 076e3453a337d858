"""``stellwerk …`` and ``python -m stellwerk …``. Ctrl-C ends it quietly, also while Python still loads the command."""


def main() -> None:
    try:
        from stellwerk.cli import app

        app()
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
