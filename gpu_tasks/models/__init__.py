"""Real models: their files, the folder that keeps them, and their text.

In reading order:

* `errors`: the error that files and folder raise, with a code for each cause
* `model_file`: the file format: header, sections, hashes; reading, verifying, writing
* `model_store`: a folder of model files by their ids, found by name
* `catalogue`: the models that a public package holds
* `tokenizer_checks`: the checks of a stranger's tokenizer
* `text`: text to token ids and back
* `template_renderer`: the process that renders chat templates
* `chat_template`: chat messages to the text that a model continues
* `sources`: other people's model files, read as hostile input
"""
