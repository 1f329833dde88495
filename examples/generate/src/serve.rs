//! OpenAI's completions over HTTP.
