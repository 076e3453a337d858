"""``stellwerk …`` and ``python -m stellwerk …``; Ctrl-C ends it quietly at any moment."""


def main() -> None:
    try:
        from stellwerk.cli import app

        app()
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
