"""Other people's model files, read as hostile input.

In reading order:

* `source_model`: a float model in one form for every file format
* `configs`: the checked config, and the tensors that it requires
* `json_files`: JSON of a stranger
* `opened_file`: a file that is read at offsets
* `origin`: the stated name, licence, revision and publisher
* `source_tokenizer`: checks of the tokenizer and the chat template
* `gguf_file`: the container format GGUF
* `gguf_tokenizer`: the tokenizer in a GGUF file's metadata
* `gguf`: a GGUF file as a source model
* `source_files`: the files of a folder or an archive
* `safetensors_file`: the container format safetensors
* `huggingface`: a folder in Hugging Face's layout as a source model
* `open_source`: the model at a path, in any of these formats
"""
