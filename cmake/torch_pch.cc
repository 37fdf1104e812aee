// The one file whose compilation makes the precompiled header that all targets with torch share.
