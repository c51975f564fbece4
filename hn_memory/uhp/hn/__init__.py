"""The provider on signed streams: one memory is one stream of the server's actor."""
