"""Exchanges that providers really answered, read through our adapters over loopback HTTP.

An exchange is a JSON file with `provider`, `api` (`chat`, `responses`, `messages`, `generate`) and
`response` (`status`, `contentType`, `retryAfter`, `body`). What comes of it is written in one form
for all providers, so that it can be laid beside what their own SDKs make of the same bytes.
"""
